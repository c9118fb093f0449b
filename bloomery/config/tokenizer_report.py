"""Settings of the tokenizer's report, and of the gate that a tokenizer must pass before any text is encoded with it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Language, Name, NotBool, Section, Share

Limit = Annotated[float, Field(gt=0), NotBool]
"""A number above 0."""
Limits = Limit | dict[Language, Limit]
"""One limit for every language, or one limit per language of the report's sample. In a table per language, `default`
applies to the languages that the table does not name. Without `default`, those languages have no limit."""


class ReferenceTokenizer(Section):
    """A reference tokenizer, with which the report compares the run's tokenizer."""

    name: Annotated[Name, Field(examples=["bloom"])]
    """Name under which the report shows the reference tokenizer."""
    tokenizer: Annotated[str, Field(examples=["bigscience/bloom"])]
    """The reference tokenizer: a folder, a `tokenizer.json`, or a Hub repository (`owner/name` or
    `owner/name@revision`)."""


class TokenizerGate(Section):
    """Limits on the figures of the tokenizer's report, most of them per language. Default (null): no limit."""

    severity: Literal["fail", "warn"] = "fail"
    """Effect of a limit that is not met. `fail`: the run stops before any text is encoded with the tokenizer.
    `warn`: a warning is printed, and the run continues."""
    languages: Annotated[list[Language] | None, Field(examples=[["fr", "sw"]])] = None
    """Language codes of the languages to which the limits apply. Each of them must occur in the report's sample.
    Default (null): all languages of the sample."""
    max_tokens_per_word: Annotated[Limits | None, Field(examples=[{"default": 3.0, "fr": 2.0}, 3.0])] = None
    """Maximum number of tokens per word (fertility), or per character in languages without spaces. A number, or a map
    from language code to number, in which `default` applies to all other languages."""
    min_bytes_per_token: Annotated[Limits | None, Field(examples=[{"default": 2.0, "fr": 3.5}, 2.0])] = None
    """Minimum number of bytes of text per token (compression). A number, or a map from language code to number."""
    max_single_byte_share: Share | None = None
    """Maximum share of the sample's tokens that consist of a single byte."""
    max_parity: Annotated[Limits | None, Field(examples=[{"default": 4.0, "fr": 1.6}, 4.0])] = None
    """Maximum parity: the number of tokens of a language divided by the number of tokens of English (without English:
    of the language with most text). Both are counted for the same content or, if there is no aligned text, for the same
    number of bytes. A number, or a map from language code to number."""
    max_over_monolingual: Annotated[float, Field(ge=0), NotBool] | None = None
    """Maximum share of additional tokens that a language's text needs, compared with a tokenizer that is trained on
    this language alone (0.1: 10 % more tokens, BLOOM's aim). This limit needs `monolingual_vocabulary`."""
    max_over_reference: Annotated[float, Field(ge=0), NotBool] | None = None
    """Maximum share of additional tokens that a language's text needs, compared with the reference tokenizer that needs
    the fewest tokens for it (0.1: 10 % more tokens). This limit needs `references`."""
    max_never_used_share: Share | None = None
    """Maximum share of vocabulary entries that no text of the corpus uses. Special tokens are not counted."""

    @property
    def limits(self) -> dict[str, object]:
        """The limits that are not null, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name.startswith(("max_", "min_"))}
        return {name: value for name, value in values.items() if value is not None}


class TokenizerReportConfig(Section):
    """Report and gate of the tokenizer. They do not affect its training."""

    references: Annotated[
        list[ReferenceTokenizer], Field(examples=[[{"name": "bloom", "tokenizer": "bigscience/bloom"}]])
    ] = []
    """Reference tokenizers, with which the report compares the run's tokenizer."""
    monolingual_vocabulary: Annotated[int, Field(ge=512, le=2**20), NotBool] | None = 32_768
    """For comparison, a monolingual tokenizer with at most this number of vocabulary entries is trained for each
    language. It has fewer entries if the run's tokenizer has fewer, or if the language has little text. null: no
    monolingual tokenizers are trained."""
    parallel: str | None = None
    """Path of aligned text, for which the report compares the number of tokens between languages: a folder of
    `<language>.txt` files whose lines correspond, or a JSON Lines file whose rows hold one text per language code.
    Default (null): parity compares equal numbers of bytes."""
    parallel_source: Name | None = None
    """Name of a source to use as aligned text, such as a source of kind `udhr`. The key `tokenizer.report.parallel`
    must then be null. Rows of this source that are translations of each other must have the same value in a field with
    the name `parallel`. Default (null): no source is used as aligned text."""
    gate: Annotated[TokenizerGate | None, Field(examples=[{"severity": "warn", "max_parity": 4.0}])] = None
    """Limits that the tokenizer must meet. Default (null): no limits."""
