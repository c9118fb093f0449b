"""What the tokenizer's report compares with, and the gate that a tokenizer must pass before anything is encoded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Language, Name, NotBool, Section, Share

Limit = Annotated[float, Field(gt=0), NotBool]
"""A number above 0."""
Limits = Limit | dict[Language, Limit]
"""One for every language, or one per language, each in the sample (`default`: all others; absent: none)."""


class ReferenceTokenizer(Section):
    """A tokenizer to compare with."""

    name: Name
    """What the report calls it."""
    tokenizer: str
    """A folder, a `tokenizer.json`, or a Hub repository (`owner/name` or `owner/name@revision`)."""


class TokenizerGate(Section):
    """Limits that hold per language, on the report's sample; each may be absent."""

    severity: Literal["fail", "warn"] = "fail"
    """`fail`: a tokenizer beyond a limit encodes nothing. `warn`: it is said, and the run goes on."""
    languages: list[Language] | None = None
    """Languages that the limits are for, each of which must be in the sample; null: those in the sample."""
    max_tokens_per_word: Limits | None = None
    """Greatest fertility (tokens per character in languages without spaces)."""
    min_bytes_per_token: Limits | None = None
    """Least compression."""
    max_single_byte_share: Share | None = None
    """Greatest share of tokens that are one byte."""
    max_parity: Limits | None = None
    """Most tokens for the same content, English = 1."""
    max_over_monolingual: Annotated[float, Field(ge=0), NotBool] | None = None
    """How many more tokens than the language's own tokenizer needs (0.1: a tenth more, BLOOM's aim)."""
    max_over_reference: Annotated[float, Field(ge=0), NotBool] | None = None
    """How many more tokens than the best of the references needs."""
    max_never_used_share: Share | None = None
    """Greatest share of the vocabulary, special tokens aside, that no text of the corpus uses."""

    @property
    def limits(self) -> dict[str, object]:
        """The limits that are set, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name.startswith(("max_", "min_"))}
        return {name: value for name, value in values.items() if value is not None}


class TokenizerReportConfig(Section):
    """The tokenizer's report and gate. Neither has a part in its training."""

    references: list[ReferenceTokenizer] = []
    """Tokenizers to compare with."""
    monolingual_vocabulary: Annotated[int, Field(ge=512, le=2**20), NotBool] | None = 32_768
    """Entries of the tokenizer that is trained for each language alone, to compare with; less where the tokenizer
    itself or the language's text is small. Null: none is trained."""
    parallel: str | None = None
    """Aligned text, for parity by content: a folder of `<language>.txt` (line n says the same in each), or a JSON Lines
    file whose rows hold a text per language code. Null: parity is by bytes."""
    parallel_source: Name | None = None
    """A source whose documents say the same where their field `parallel` is the same (kind `udhr` has it)."""
    gate: TokenizerGate | None = None
    """Limits; null: none."""
