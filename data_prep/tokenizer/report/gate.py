"""Check a report's figures against the configured limits (the gate), and list every limit that is not met."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bloomery.config.tokenizer_report import TokenizerGate

FIGURES = {
    "max_tokens_per_word": ("tokens_per_word", "tokens per word"),
    "min_bytes_per_token": ("bytes_per_token", "bytes per token"),
    "max_single_byte_share": ("single_byte_share", "share of single-byte tokens"),
    "max_parity": ("parity", "parity"),
    "max_over_monolingual": ("over_monolingual", "excess of tokens over the language's own tokenizer"),
    "max_over_reference": ("over_reference", "excess of tokens over the reference tokenizer with the fewest tokens"),
}
"""For each limit, the key of the limited figure in a language's report entry, and the figure's name in messages."""


@dataclass(frozen=True)
class Failure:
    """A limit that the tokenizer does not meet."""

    language: str | None
    """Language code. None if the limit concerns the whole vocabulary."""
    name: str | None
    """Name of the language. None if the limit concerns the whole vocabulary."""
    limit: str
    """Name of the limit."""
    bound: float | None
    """Value of the limit. None if the report has no languages at all."""
    value: float | None
    """Value of the figure in the report. None if the report has no value, so that the limit cannot be checked."""

    def __str__(self) -> str:
        what = FIGURES[self.limit][1] if self.limit in FIGURES else "share of tokens never used"
        who = f"{self.name} ({self.language})" if self.language else "the vocabulary"
        if self.value is None:
            return f"{who}: {self.limit} cannot be checked, because the report has no value for: {what}"
        side = "at most" if self.limit.startswith("max_") else "at least"
        as_share = "share" in self.limit or "over" in self.limit
        value, bound = (f"{100 * one:.4g} %" if as_share else f"{one:.4g}" for one in (self.value, self.bound or 0.0))
        return f"{who}: {what} is {value}, but {self.limit} allows {side} {bound}"


def failures(report: dict[str, Any], gate: TokenizerGate) -> list[Failure]:
    """Return every limit of `gate` that is not met, sorted by language. This includes limits that cannot be checked."""
    found = []
    languages = report["languages"]
    # A limit for a language that is missing in the sample counts as not met, because its code may be mistyped.
    chosen = {*languages, *_named(gate)} if gate.languages is None else set(gate.languages)
    for language in sorted(chosen):
        for name, (figure, _) in FIGURES.items():
            bound = _bound(getattr(gate, name), language)
            if bound is None:
                continue
            entry = languages.get(language, {"name": language})
            value = entry.get(figure)
            if value is None or (value > bound if name.startswith("max_") else value < bound):
                found.append(Failure(language, entry["name"], name, bound, value))
    if gate.max_never_used_share is not None:
        share = report["vocabulary_facts"]["never_used"]["share"]
        if share > gate.max_never_used_share:
            found.append(Failure(None, None, "max_never_used_share", gate.max_never_used_share, share))
    if not languages and gate.limits:
        found.append(Failure(None, None, next(iter(gate.limits)), None, None))
    return found


def _named(gate: TokenizerGate) -> set[str]:
    """Return the languages that the limits name."""
    return {code for limit in gate.limits.values() if isinstance(limit, dict) for code in limit} - {"default"}


def _bound(limits: float | dict[str, float] | None, language: str) -> float | None:
    return limits.get(language, limits.get("default")) if isinstance(limits, dict) else limits


def verdict(report: dict[str, Any], gate: TokenizerGate | None) -> dict[str, Any]:
    """Return the result of the check for the page and `gate.json`. `status` is none, passed, warned or failed."""
    if gate is None or not gate.limits:
        return {"status": "none", "failures": [], "limits": {}}
    found = failures(report, gate)
    status = "passed" if not found else "failed" if gate.severity == "fail" else "warned"
    return {
        "status": status,
        "limits": gate.model_dump(mode="json", exclude_none=True),
        "failures": [asdict(failure) | {"message": str(failure)} for failure in found],
    }
