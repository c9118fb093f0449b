"""Render the tokenizer's report as one HTML file, with the same style as the corpus page.

The page loads no other files, and its charts are inline SVG. It supports light and dark mode and any screen width.
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
"""Maximum number of failed limits that the page lists."""
_WORST = 3


def render(report: dict[str, Any], origin: str = "") -> str:
    """Return the HTML page of a report (`build_report.tokenizer_report`). `origin` says what the page was made from."""
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
        origin=escape(origin),
        verdict=_verdict(report["gate"]),
        cards=_cards(report),
        fertility=_fertility(languages, series, limit("max_tokens_per_word")),
        own=_own(report),
        parity=dot_plot(languages, "parity", series, two, limit=limit("max_parity") or (1.0, "equal cost")),
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
    """Plot languages with spaces and languages without spaces separately.

    The plots are separate, because tokens per word and tokens per character cannot be compared.
    """
    parts = []
    for unit in ("words", "characters"):
        chosen = {code: one for code, one in languages.items() if one["words_are"] == unit}
        if chosen or unit == "words":
            parts.append(dot_plot(chosen, "tokens_per_word", series, two, limit=limit))
    return "<h3>Tokens per character, in languages without spaces</h3>".join(parts)


def _file(name: str) -> str:
    return files("data_prep.tokenizer.report").joinpath(name).read_text(encoding="utf-8")


def headline(report: dict[str, Any]) -> str:
    """Return one line that states whether the tokenizer meets its limits."""
    gate, vocabulary = report["gate"], count(report["vocabulary"])
    failed = len(gate["failures"])
    beyond = f"{failed} figure{' is beyond its limit' if failed == 1 else 's are beyond their limits'}"
    return {
        "none": f"A tokenizer of {vocabulary} tokens for {len(report['languages'])} languages",
        "passed": f"The tokenizer of {vocabulary} tokens meets all configured limits",
        "failed": f"The tokenizer does not meet its limits: {beyond}",
        "warned": f"The tokenizer is accepted with warnings: {beyond}",
    }[gate["status"]]


def _lead(report: dict[str, Any]) -> str:
    languages = report["languages"]
    words = [
        (one["tokens_per_word"], one["name"])
        for one in languages.values()
        if one["tokens_per_word"] and one["words_are"] == "words"
    ]
    if not words:
        return (
            "The sample of documents that this report measures has no words in a language with spaces between words, "
            "so there is no number of tokens per word."
        )
    worst = ", ".join(f"{name} {two(value)}" for value, name in sorted(words, reverse=True)[:_WORST])
    best = ", ".join(f"{name} {two(value)}" for value, name in sorted(words)[:_WORST])
    gate = " No limits are set." if report["gate"]["status"] == "none" else ""
    sample = f"The figures are measured on a fixed sample of documents in {len(languages)} languages."
    return f"{sample} Most tokens per word: {worst}. Fewest tokens per word: {best}.{gate}"


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
    cards = [(count(report["vocabulary"]), "tokens, including special tokens")]
    if fertility:
        cards.append((two(median(fertility)), "tokens per word (median over the languages)"))
    if parity:
        value, name = max(parity)
        cards.append((two(value), f"greatest parity ({name})"))
    if over:
        beyond = sum(value > 0.1 for value in over)
        words = "languages need over 10\u202f% more tokens than with a tokenizer of their own"
        cards.append((f"{beyond} of {len(over)}", words))
    cards.append((percent(facts["never_used"]["share"]), "of the tokens are never used"))
    if "unreachable" in facts["glitches"]:
        cards.append((count(facts["glitches"]["unreachable"]["tokens"]), "unreachable tokens"))
    return "".join(f"<div class='card'><b>{number}</b><span>{escape(words)}</span></div>" for number, words in cards)


def _own(report: dict[str, Any]) -> str:
    own = [one["monolingual"] for one in report["languages"].values() if one["monolingual"]]
    if not own:
        return "No tokenizers were trained for single languages, so this plot does not show them."
    least, most = min(one["vocabulary"] for one in own), max(one["vocabulary"] for one in own)
    return (
        "The vertical bar marks a tokenizer that was trained for the language alone, on the same pre-token counts. "
        f"Such a tokenizer has at most {count(report['monolingual_vocabulary'])} entries, and never more than the "
        "tokenizer of this report. Languages with little text get fewer entries, so that their tokenizers do not "
        f"memorise whole texts. The smallest tokenizer for one language has {count(least)} entries, the largest "
        f"{count(most)}."
    )


def _parity_words(report: dict[str, Any]) -> str:
    reference = report["languages"].get(report["reference"], {}).get("name", "the reference language")
    if report["parity_by"] == "content":
        return f"Number of tokens for the same content (aligned text), relative to {escape(reference)} (1.0)."
    return (
        f"Number of tokens for the same number of UTF-8 bytes, relative to {escape(reference)} (1.0). A character "
        "takes one to four bytes, depending on the script, so this figure is too low for languages whose characters "
        "take many bytes. "
        "To compare the same content, set <code>tokenizer.report.parallel</code> to the path of aligned text."
    )


def _usage_words(report: dict[str, Any]) -> str:
    facts = report["vocabulary_facts"]
    source = (
        "The uses of tokens are counted in the whole corpus, from the counts of its pre-tokens."
        if report["usage_from"] == "counts"
        else "The uses of tokens are counted in the sample only, so rare tokens may appear unused."
    )
    return (
        f"{source} {count(facts['used_in_one_language'])} tokens are used in one language only. "
        f"{count(facts['variants'])} tokens differ from another token only in case or surrounding white space. "
        f"{count(facts['fragments'])} tokens are parts of characters, which is normal in byte-level tokenizers."
    )
