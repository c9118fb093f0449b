"""The tokenizer's report as one HTML file in the manner of the corpus page, whose style it shares.

Nothing is fetched; charts are inline SVG; light and dark, from a phone to a wide screen.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from statistics import median
from string import Template
from typing import Any

from data_prep.report.wording import count, percent
from data_prep.tokenizer.report import sections
from data_prep.tokenizer.report.dots import Series, all_series, dot_plot
from data_prep.tokenizer.report.language_table import figures, two

MOST_FAILURES = 20
"""Failures that the verdict spells out."""
_WORST = 3


def render(report: dict[str, Any]) -> str:
    """The page of a report (`build.tokenizer_report`)."""
    languages, facts = report["languages"], report["vocabulary_facts"]
    series = all_series(list(report["references"]), any(one["monolingual"] for one in languages.values()))
    limits = report["gate"]["limits"]

    def limit(name: str) -> tuple[float, str] | None:
        found = limits.get(name)
        return None if found is None or isinstance(found, dict) else (found, "limit")

    script = _file("page.js")
    return Template(_file("page.html")).substitute(
        style=files("data_prep.report").joinpath("page.css").read_text(encoding="utf-8") + _file("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        headline=escape(headline(report)),
        lead=escape(_lead(report)),
        verdict=_verdict(report["gate"]),
        cards=_cards(report),
        fertility=_fertility(languages, series, limit("max_tokens_per_word")),
        own=_own(report),
        parity=dot_plot(languages, "parity", series, two, limit=limit("max_parity") or (1.0, "the same")),
        parity_words=_parity_words(report),
        single=dot_plot(
            languages, "single_byte_share", series, percent, logarithmic=False, limit=limit("max_single_byte_share")
        ),
        compression=dot_plot(
            languages, "bytes_per_token", series, two, limit=limit("min_bytes_per_token"), best_first=True
        ),
        usage_words=_usage_words(report),
        scripts=sections.scripts(facts),
        lengths=sections.lengths(facts),
        ranks=sections.ranks(facts),
        never_used=sections.never_used(facts),
        glitches=sections.glitches(facts),
        longest=sections.longest(facts),
        figures=figures(report),
        digest=escape(report["tokenizer"]),
    )


def _fertility(languages: dict[str, Any], series: list[Series], limit: tuple[float, str] | None) -> str:
    """Languages with and without spaces apart: words and characters do not compare."""
    parts = []
    for unit in ("words", "characters"):
        chosen = {code: one for code, one in languages.items() if one["words_are"] == unit}
        if chosen or unit == "words":
            parts.append(dot_plot(chosen, "tokens_per_word", series, two, limit=limit))
    return "<h3>Tokens per character, in languages without spaces</h3>".join(parts)


def _file(name: str) -> str:
    return files("data_prep.tokenizer.report").joinpath(name).read_text(encoding="utf-8")


def headline(report: dict[str, Any]) -> str:
    """The verdict in a line."""
    gate, vocabulary = report["gate"], count(report["vocabulary"])
    failed = len(gate["failures"])
    beyond = f"{failed} figure{' is beyond its limit' if failed == 1 else 's are beyond their limits'}"
    return {
        "none": f"A tokenizer of {vocabulary} tokens for {len(report['languages'])} languages",
        "passed": f"The tokenizer of {vocabulary} tokens passed its gate",
        "failed": f"The tokenizer failed its gate: {beyond}",
        "warned": f"The tokenizer is in doubt: {beyond}",
    }[gate["status"]]


def _lead(report: dict[str, Any]) -> str:
    languages = report["languages"]
    words = [
        (one["tokens_per_word"], one["name"])
        for one in languages.values()
        if one["tokens_per_word"] and one["words_are"] == "words"
    ]
    if not words:
        return "No text was found to measure it on."
    worst = ", ".join(f"{name} {two(value)}" for value, name in sorted(words, reverse=True)[:_WORST])
    best = ", ".join(f"{name} {two(value)}" for value, name in sorted(words)[:_WORST])
    gate = " No limits are set." if report["gate"]["status"] == "none" else ""
    sample = f"Measured on a fixed sample of {len(languages)} languages."
    return f"{sample} Most tokens per word: {worst}. Fewest: {best}.{gate}"


def _verdict(gate: dict[str, Any]) -> str:
    found = gate["failures"]
    if gate["status"] in ("none", "passed"):
        return ""
    items = "".join(f"<li>{escape(one['message'])}</li>" for one in found[:MOST_FAILURES])
    more = f"<li>and {count(len(found) - MOST_FAILURES)} more</li>" if len(found) > MOST_FAILURES else ""
    return f"<ul class='verdict {gate['status']}'>{items}{more}</ul>"


def _cards(report: dict[str, Any]) -> str:
    languages, facts = list(report["languages"].values()), report["vocabulary_facts"]
    fertility = [one["tokens_per_word"] for one in languages if one["tokens_per_word"] and one["words_are"] == "words"]
    over = [one["over_monolingual"] for one in languages if one["over_monolingual"] is not None]
    parity = [(one["parity"], one["name"]) for one in languages if one["parity"] is not None]
    cards = [(count(report["vocabulary"]), "tokens, special ones included")]
    if fertility:
        cards.append((two(median(fertility)), "tokens per word, median of the languages"))
    if parity:
        value, name = max(parity)
        cards.append((two(value), f"greatest parity: {name}"))
    if over:
        beyond = sum(value > 0.1 for value in over)
        cards.append((f"{beyond} of {len(over)}", "languages over 10\u202f% behind a tokenizer of their own"))
    cards.append((percent(facts["never_used"]["share"]), "of the tokens are never used"))
    if "unreachable" in facts["glitches"]:
        cards.append((count(facts["glitches"]["unreachable"]["tokens"]), "tokens that cannot be reached"))
    return "".join(f"<div class='card'><b>{number}</b><span>{escape(words)}</span></div>" for number, words in cards)


def _own(report: dict[str, Any]) -> str:
    own = [one["monolingual"] for one in report["languages"].values() if one["monolingual"]]
    if not own:
        return "No tokenizer was trained for a language alone."
    least, most = min(one["vocabulary"] for one in own), max(one["vocabulary"] for one in own)
    return (
        "The upright stroke is a tokenizer trained for the language alone, on the same counts: at most "
        f"{count(report['monolingual_vocabulary'])} entries, no more than this tokenizer has, nor than different "
        "pieces of text that occur twice, so that it does not learn them by heart "
        f"({count(least)} to {count(most)} entries)."
    )


def _parity_words(report: dict[str, Any]) -> str:
    reference = report["languages"].get(report["reference"], {}).get("name", "nothing")
    if report["parity_by"] == "content":
        return f"Tokens for the same content (aligned text), {escape(reference)} = 1: what it costs to say the same."
    return (
        f"Tokens for as many bytes of UTF-8, {escape(reference)} = 1. Scripts need one to three bytes a character, so "
        "this flatters some: name aligned text (<code>tokenizer.report.parallel</code>) to compare the same content."
    )


def _usage_words(report: dict[str, Any]) -> str:
    facts = report["vocabulary_facts"]
    source = (
        "Counted over the whole corpus (its pre-token counts)."
        if report["usage_from"] == "counts"
        else "Counted in the sample alone, so that rare tokens look unused."
    )
    return (
        f"{source} {count(facts['used_in_one_language'])} tokens are used in one language only; "
        f"{count(facts['variants'])} differ from another only in case or in white space around them; "
        f"{count(facts['fragments'])} are parts of characters, as byte-level tokenizers have them."
    )
