"""The gate: a report's figures against the limits that the configuration sets. Says every limit that does not hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bloomery.config.tokenizer_report import TokenizerGate

FIGURES = {
    "max_tokens_per_word": ("tokens_per_word", "tokens per word"),
    "min_bytes_per_token": ("bytes_per_token", "bytes per token"),
    "max_single_byte_share": ("single_byte_share", "share of single-byte tokens"),
    "max_parity": ("parity", "parity"),
    "max_over_monolingual": ("over_monolingual", "tokens more than its own tokenizer's"),
    "max_over_reference": ("over_reference", "tokens more than the best reference's"),
}
"""Limit -> its figure in a language's entry of the report, and in words."""


@dataclass(frozen=True)
class Failure:
    """A limit that does not hold."""

    language: str | None
    """Code; None: the vocabulary's."""
    name: str | None
    """The language in words."""
    limit: str
    """Name of the limit."""
    bound: float | None
    """The limit; None when the language has no figure at all."""
    value: float | None
    """The figure; None: the report has none, so that it cannot be checked."""

    def __str__(self) -> str:
        what = FIGURES[self.limit][1] if self.limit in FIGURES else "share of tokens never used"
        who = f"{self.name} ({self.language})" if self.language else "the vocabulary"
        if self.value is None:
            return f"{who}: {self.limit} cannot be checked: the report has no figure"
        side = "at most" if self.limit.startswith("max_") else "at least"
        as_share = "share" in self.limit or "over" in self.limit
        value, bound = (f"{100 * one:.4g} %" if as_share else f"{one:.4g}" for one in (self.value, self.bound or 0.0))
        return f"{who}: {what} {value}, {self.limit} allows {side} {bound}"


def failures(report: dict[str, Any], gate: TokenizerGate) -> list[Failure]:
    """Every limit of `gate` that `report` does not keep, by language and limit. What cannot be checked is not kept."""
    found = []
    languages = report["languages"]
    # A limit for a language that the sample lacks, mistyped perhaps, must not pass unseen.
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
    """Languages that a limit names."""
    return {code for limit in gate.limits.values() if isinstance(limit, dict) for code in limit} - {"default"}


def _bound(limits: float | dict[str, float] | None, language: str) -> float | None:
    return limits.get(language, limits.get("default")) if isinstance(limits, dict) else limits


def verdict(report: dict[str, Any], gate: TokenizerGate | None) -> dict[str, Any]:
    """What the page and `gate.json` say: `status` is none, passed, warned or failed."""
    if gate is None or not gate.limits:
        return {"status": "none", "failures": [], "limits": {}}
    found = failures(report, gate)
    status = "passed" if not found else "failed" if gate.severity == "fail" else "warned"
    return {
        "status": status,
        "limits": gate.model_dump(mode="json", exclude_none=True),
        "failures": [asdict(failure) | {"message": str(failure)} for failure in found],
    }
