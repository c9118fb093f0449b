"""Checks of the tokenizer, its vocabulary and its report, and of keys that have no effect on an existing tokenizer."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction
from bloomery.config.tokenizer_report import TokenizerGate, TokenizerReportConfig
from bloomery.config.tokens import smallest_vocabulary

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def existing_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find keys that have no effect: on an existing tokenizer if `existing` is set, on a trained one otherwise."""
    tokenizer, key = config.tokenizer, "tokenizer.existing"
    if tokenizer.existing is None:
        if tokenizer.end_of_document is None:
            return []
        message = f"tokenizer.end_of_document {tokenizer.end_of_document!r} applies only to an existing tokenizer"
        keys = ("tokenizer.end_of_document", key)
        right = "null, or an existing tokenizer in tokenizer.existing"
        return [Contradiction(message, keys, tokenizer.end_of_document, right)]
    trained = ("reserved_tokens", "pre_tokenizer", "split_digits", "min_frequency", "max_token_bytes", "max_pieces")
    fields = type(tokenizer).model_fields
    problems = []
    for name in trained:
        value = getattr(tokenizer, name)
        if value != fields[name].default:
            message = f"tokenizer.{name} {value!r} applies only to a tokenizer that the run trains, but {key} is set"
            problems.append(Contradiction(message, (f"tokenizer.{name}", key), value, f"no tokenizer.{name} key"))
    return problems


def vocabulary_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find a vocabulary that is too small for its special, reserved and byte tokens."""
    tokenizer = config.tokenizer
    least = smallest_vocabulary(tokenizer.reserved_tokens)
    if tokenizer.existing is not None or tokenizer.vocabulary_size >= least:
        return []
    message = (
        f"tokenizer.vocabulary_size {tokenizer.vocabulary_size} is less than the sum of 4 special "
        f"tokens, {tokenizer.reserved_tokens} reserved tokens and 256 byte tokens"
    )
    keys = ("tokenizer.vocabulary_size", "tokenizer.reserved_tokens")
    return [Contradiction(message, keys, tokenizer.vocabulary_size, f"at least {least}")]


def report_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find settings of the tokenizer's report that contradict each other, the sources or `tokenizer.existing`."""
    report, existing = config.tokenizer.report, "tokenizer.existing"
    found = _of_report(report, [source.name for source in config.sources])
    if config.tokenizer.existing is not None and report.gate and report.gate.max_over_monolingual is not None:
        key = "tokenizer.report.gate.max_over_monolingual"
        message = (
            f"{key} is set, but {existing} is set too: such a run counts no pre-tokens, so it cannot train monolingual "
            "tokenizers to compare with"
        )
        found.append(Contradiction(message, (key, existing), report.gate.max_over_monolingual, "null"))
    return found


def _of_report(report: TokenizerReportConfig, sources: Collection[str]) -> list[Contradiction]:
    """Find settings of `report` that contradict each other or the names in `sources`."""
    here, found = "tokenizer.report", []
    names = [reference.name for reference in report.references]
    for number, name in enumerate(names):
        if name in names[:number]:
            key = f"{here}.references[{number}].name"
            message = f"{key}: several references have the name {name!r}; each reference needs its own name"
            found.append(Contradiction(message, (key,), name, "a name that no other reference has"))
    if report.parallel is not None and report.parallel_source is not None:
        message = f"{here}.parallel and {here}.parallel_source are both set, but the report uses only one aligned text"
        keys = (f"{here}.parallel", f"{here}.parallel_source")
        found.append(Contradiction(message, keys, report.parallel, "null for one of the two keys"))
    if report.parallel_source is not None and report.parallel_source not in sources:
        key = f"{here}.parallel_source"
        message = f"{key}: {report.parallel_source!r} is not the name of a source of this run"
        found.append(Contradiction(message, (key, "sources"), report.parallel_source, f"one of {', '.join(sources)}"))
    gate = report.gate or TokenizerGate()
    size = f"{here}.monolingual_vocabulary with a number of entries, such as 32768"
    needs = {
        "max_over_monolingual": ("monolingual_vocabulary", report.monolingual_vocabulary is not None, size),
        "max_over_reference": ("references", bool(report.references), "at least one reference tokenizer"),
    }
    for limit, (key, there, right) in needs.items():
        if limit in gate.limits and not there:
            message = f"{here}.gate.{limit} is set, but {here}.{key} provides no tokenizer to compare with"
            found.append(Contradiction(message, (f"{here}.{key}", f"{here}.gate.{limit}"), None, right))
    return found
