"""Render what each rule removed, with examples and their reasons."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from html import escape
from typing import Any

from bloomery.base.units import format_bytes
from bloomery.config.languages import profile_of
from data_prep.report.charts import stacked
from data_prep.report.rules import TITLES, family_of, measure_of
from data_prep.report.wording import count, documents, language_attributes, number, percent


def rule_list(report: dict[str, Any]) -> str:
    """Return the rules that removed documents, by descending number. Each rule can be opened to show its examples."""
    rules = sorted(report["rules"].items(), key=lambda item: -item[1]["documents"])
    if not rules:
        return "<p class='note'>No document was removed.</p>"
    largest, came = rules[0][1]["documents"], report["totals"]["documents_in"]
    return "".join(_rule(name, rule, largest, came) for name, rule in rules)


def limits_in_words(limits: Iterable[float]) -> str:
    """Format the limits of all languages: `0.3`, or `0.2 to 0.5 (depending on the language)` if they differ."""
    found = sorted(set(limits))
    return (
        number(found[0])
        if len(found) == 1
        else f"{number(found[0])} to {number(found[-1])} (depending on the language)"
    )


def _rule(name: str, rule: dict[str, Any], largest: int, came: int) -> str:
    family = family_of(name)
    notes = []
    if rule["limits"]:
        notes.append(f"Limit: {limits_in_words(rule['limits'].values())}.")
    if rule["failing_documents"] > rule["documents"]:
        notes.append(
            f"Documents that fail this rule: {count(rule['failing_documents'])}. A document that fails several rules "
            "is counted only under the first one."
        )
    if measure := measure_of(name):
        notes.append(f"<a href='#measure-{measure}'>See the measure</a>")
    examples = "".join(_example(example) for example in rule.get("examples", []))
    bar = stacked([(family, TITLES.get(name, name), rule["documents"])], whole=largest)
    return (
        f"<details class='rule'><summary><span class='title'><b>{escape(TITLES.get(name, name))}</b> "
        f"<code>{escape(name)}</code></span><span class='meter'>{bar}</span>"
        f"<span class='count'>{documents(rule['documents'])}, {percent(rule['documents'] / came)}, "
        f"{format_bytes(rule['bytes'])}</span></summary>"
        f"<p>{' '.join(notes)}</p><ul class='examples'>{examples}</ul></details>"
    )


def _example(example: dict[str, Any]) -> str:
    facts = [f"{example['source']}, {example['language']}", f"id {example['id']}"]
    reason = _reason(example)
    lines = [quote(example)]
    if "duplicate_of" in example:
        kept = {"language": example["duplicate_of_language"], "excerpt": example["duplicate_of_excerpt"]}
        lines = compared(example, kept) if kept["excerpt"] else lines
        facts.append(f"kept: {example['duplicate_of']} of {example['duplicate_of_source']}")
    shown = f"<strong>{escape(reason)}</strong> · " if reason else ""
    return f"<li>{''.join(lines)}<small>{shown}{escape(' · '.join(facts))}</small></li>"


def _reason(example: dict[str, Any]) -> str:
    """Return why the document was removed, in numbers."""
    if "value" in example:
        value, limit = example["value"], example["limit"]
        side = "" if limit is None else f", limit {number(limit)}"
        return f"measured {value:.4g}{side}"
    if "detected" in example:
        return f"labelled as {example['language']}, detected as {example['detected']}"
    if "duplicate_of" in example:
        return f"{likeness(example['similarity'])}, cluster of {documents(example['cluster_size'])}"
    if "item" in example:
        hits, share = count(example["hits"]), percent(example["share"])
        shared = f"n-grams in evaluation texts: {hits} ({share} of the document's n-grams)"
        return f"{shared}, evaluation text with the most of them: {example['item']}"
    return ""


def likeness(similarity: float | None) -> str:
    """Return the similarity of a duplicate and the kept document in words, or `not compared` if it is None."""
    # Round down, so that a near duplicate never shows the similarity 1.00.
    return "not compared" if similarity is None else f"similarity {math.floor(100 * similarity) / 100:.2f}"


def quote(document: dict[str, Any], marked: str | None = None) -> str:
    """Return a document's excerpt as HTML with language and direction. `marked` is HTML that replaces the excerpt."""
    text = escape(document["excerpt"]) if marked is None else marked
    return f"<q{language_attributes(escape(document['language']))}>{text}</q>"


def compared(removed: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Return the excerpts of a duplicate and of the kept document, with marked differences."""
    went, stays = (_tokens(one["excerpt"], one["language"]) for one in (removed, kept))
    pieces: list[tuple[str, int, int, int, int]] = [*SequenceMatcher(None, went, stays, autojunk=False).get_opcodes()]
    if pieces and removed["excerpt"].endswith("…"):
        # The last words can differ only because the excerpts are cut there.
        pieces[-1] = ("equal", *pieces[-1][1:])
    marked_went = "".join(_marked(went[start:end], kind) for kind, start, end, _, _ in pieces)
    marked_stays = "".join(_marked(stays[start:end], kind) for kind, _, _, start, end in pieces)
    return [
        f"<span class='side'>removed</span>{quote(removed, marked_went)}",
        f"<span class='side'>kept</span>{quote(kept, marked_stays)}",
    ]


def _marked(words: list[str], kind: str) -> str:
    text = escape("".join(words))
    return f"<mark>{text}</mark>" if text and kind != "equal" else text


def _tokens(text: str, language: str) -> list[str]:
    """Split a text into words with their trailing spaces, or into characters for languages without spaces."""
    return list(text) if profile_of(language).unspaced else re.findall(r"\S+\s*|\s+", text)
