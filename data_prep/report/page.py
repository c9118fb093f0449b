"""The corpus report as one HTML file: no scripts, nothing fetched, bars as inline SVG, light and dark."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from bloomery.base.units import format_bytes

FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "length": ("too short or long", ("min_characters", "min_words", "max_words")),
    "words": ("odd words", ("min_mean_word_length", "max_mean_word_length", "min_alphabetic_word_ratio")),
    "repetition": (
        "repetition",
        (
            *("max_character_repetition_ratio", "max_word_repetition_ratio", "max_duplicate_line_ratio"),
            *("max_duplicate_line_fraction", "max_duplicate_paragraph_fraction", "max_duplicate_paragraph_ratio"),
            *(f"max_top_{words}gram_ratio" for words in (2, 3, 4)),
            *(f"max_duplicate_{words}gram_ratio" for words in range(5, 11)),
        ),
    ),
    "symbols": (
        "symbols and digits",
        ("max_special_ratio", "max_digit_ratio", "max_hash_ratio", "max_ellipsis_ratio", "max_ellipsis_line_ratio"),
    ),
    "layout": (
        "lists and menus",
        ("max_short_line_ratio", "min_terminal_punctuation_ratio", "max_newline_ratio", "max_bullet_ratio"),
    ),
    "encoding": ("broken encoding", ("max_replacement_ratio",)),
    "language": ("wrong language", ("wrong_language",)),
    "evaluation": ("evaluation texts", ("contaminated",)),
    "duplicates": ("duplicates", ("exact_duplicate", "near_duplicate")),
}
"""Family -> its words and its rules; colours are the page's variables of the same names."""

TITLES = {
    "min_characters": "Too few characters",
    "min_words": "Too few words",
    "max_words": "Too many words",
    "min_mean_word_length": "Words too short on average",
    "max_mean_word_length": "Words too long on average",
    "max_character_repetition_ratio": "Runs of characters that repeat",
    "max_word_repetition_ratio": "Runs of words that repeat",
    "max_special_ratio": "Too much punctuation and symbols",
    "max_digit_ratio": "Too many digits",
    "min_alphabetic_word_ratio": "Too few words with a letter",
    "max_short_line_ratio": "Too many short lines",
    "max_duplicate_line_ratio": "Lines that repeat",
    "min_terminal_punctuation_ratio": "Too few lines end a sentence",
    "max_newline_ratio": "Too many line ends for its words",
    "max_bullet_ratio": "Too many bullets",
    "max_replacement_ratio": "Broken encoding",
    "max_duplicate_line_fraction": "Too many lines that repeat",
    "max_duplicate_paragraph_fraction": "Too many paragraphs that repeat",
    "max_duplicate_paragraph_ratio": "Paragraphs that repeat",
    "max_top_2gram_ratio": "The same two words again and again",
    "max_top_3gram_ratio": "The same three words again and again",
    "max_top_4gram_ratio": "The same four words again and again",
    **{f"max_duplicate_{words}gram_ratio": f"Runs of {words} words that repeat" for words in range(5, 11)},
    "max_hash_ratio": "Too many number signs",
    "max_ellipsis_ratio": "Too many ellipses",
    "max_ellipsis_line_ratio": "Too many lines end in an ellipsis",
    "wrong_language": "Not in the language that its label says",
    "contaminated": "Shares a run of words with an evaluation text",
    "exact_duplicate": "Same text as a document that stayed",
    "near_duplicate": "Nearly the text of a document that stayed",
}


def render(report: dict[str, Any]) -> str:
    """The page of a report as `gather` and `examples` make it."""
    template = Template(files("data_prep.report").joinpath("page.html").read_text(encoding="utf-8"))
    totals = report["totals"]
    came, stayed = totals["documents_in"], totals["documents_out"]
    return template.substitute(
        headline=f"{_count(stayed)} of {_count(came)} documents stayed",
        lead=escape(_lead(report)),
        cards=_cards(report),
        legend=_legend(),
        languages="".join(
            _funnel_row(f"{escape(entry['name'])} <code>{escape(code)}</code>", entry, format_bytes(entry["bytes_out"]))
            for code, entry in sorted(report["languages"].items(), key=lambda item: (-item[1]["bytes_in"], item[0]))
        ),
        rules="".join(_rule(name, rule) for name, rule in report["rules"].items())
        or "<p class='note'>No document was removed.</p>",
        sources="".join(
            _funnel_row(escape(name), entry, _count(entry["bad_rows"])) for name, entry in report["sources"].items()
        ),
        bad=_bad_rows(report["bad_rows"]),
        mixture=_mixture(report["mixture"], report["languages"]),
    )


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _documents(number: int) -> str:
    return f"{_count(number)} document{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u202f%" if share and share < 0.1 else f"{100 * share:.0f}\u202f%"


def _lead(report: dict[str, Any]) -> str:
    totals = report["totals"]
    redactions = sum(totals["redactions"].values())
    parts = [
        f"{format_bytes(totals['bytes_in'])} of text in {len(report['languages'])} languages came in, "
        f"{format_bytes(totals['bytes_out'])} stayed."
    ]
    if redactions:
        kinds = ", ".join(f"{kind} {_count(number)}" for kind, number in totals["redactions"].items())
        parts.append(
            f"{_count(redactions)} personal details in {_documents(totals['redacted_documents'])} were replaced "
            f"({kinds.replace('_', ' ')})."
        )
    if totals["trusted_disagreements"]:
        parts.append(
            f"{_documents(totals['trusted_disagreements'])} of trusted sources look like another language and stayed."
        )
    return " ".join(parts)


def _cards(report: dict[str, Any]) -> str:
    totals = report["totals"]
    removed = totals["removed"]
    copies = removed.get("exact_duplicate", 0) + removed.get("near_duplicate", 0)
    cards = [
        (_count(totals["documents_in"]), "documents came"),
        (_count(totals["bad_rows"]), "rows could not be read"),
        (_count(sum(removed.values()) - copies), "removed by a rule"),
        (_count(copies), "removed as duplicates"),
        (_count(sum(totals["redactions"].values())), "personal details replaced"),
        (_count(totals["documents_out"]), "documents stayed"),
    ]
    return "".join(f"<div class='card'><b>{number}</b><span>{words}</span></div>" for number, words in cards)


def _legend() -> str:
    items = [("kept", "stayed"), *((name, words) for name, (words, _) in FAMILIES.items())]
    return "".join(f"<span><i style='background:var(--{name})'></i>{words}</span>" for name, words in items)


def _funnel_row(title: str, entry: dict[str, Any], last: str) -> str:
    came, stayed = entry["documents_in"], entry["documents_out"]
    pieces = [("kept", "stayed", stayed)]
    for name, (words, rules) in FAMILIES.items():
        pieces.append((name, words, sum(entry["removed"].get(rule, 0) for rule in rules)))
    return (
        f"<tr><td>{title}</td><td class='bar'>{_stacked(pieces)}</td><td class='n'>{_count(came)}</td>"
        f"<td class='n'>{_percent(stayed / came) if came else '–'}</td><td class='n'>{last}</td></tr>"
    )


def _stacked(pieces: list[tuple[str, str, int]]) -> str:
    """One bar of coloured pieces, as wide as their share of all."""
    total = sum(number for _, _, number in pieces) or 1
    drawn, left = [], 0.0
    for name, words, number in pieces:
        if number:
            width = 100 * number / total
            drawn.append(
                f"<rect x='{left:.3f}' width='{width:.3f}' height='10' style='fill:var(--{name})'>"
                f"<title>{words}: {_count(number)} ({_percent(number / total)})</title></rect>"
            )
            left += width
    label = ", ".join(f"{words} {_count(number)}" for _, words, number in pieces if number)
    return (
        f"<svg viewBox='0 0 100 10' preserveAspectRatio='none' role='img' aria-label='{escape(label)}'>"
        f"{''.join(drawn)}</svg>"
    )


def _rule(name: str, rule: dict[str, Any]) -> str:
    family = next((family for family, (_, rules) in FAMILIES.items() if name in rules), "length")
    limits = sorted(set(rule["limits"].values()))
    notes = []
    if limits:
        between = f"{limits[0]:g}" if len(limits) == 1 else f"{limits[0]:g} to {limits[-1]:g}, by language"
        notes.append(f"Limit: {between}.")
    if rule["failing_documents"] > rule["documents"]:
        notes.append(f"{_documents(rule['failing_documents'])} break it, some of them another rule first.")
    examples = "".join(_example(example) for example in rule.get("examples", []))
    return (
        f"<details><summary><span class='swatch' style='background:var(--{family})'></span>"
        f"<span><b>{escape(TITLES.get(name, name))}</b><code>{escape(name)}</code></span>"
        f"<span class='count'>{_documents(rule['documents'])}, {format_bytes(rule['bytes'])}</span></summary>"
        f"<p>{' '.join(notes)}</p><ul class='examples'>{examples}</ul></details>"
    )


def _example(example: dict[str, Any]) -> str:
    facts = [f"{example['source']}, {example['language']}", f"id {example['id']}"]
    if "value" in example:
        value = example["value"]
        facts.append(f"detected {value}" if isinstance(value, str) else f"measured {value:.4g}")
    if "twin" in example:
        facts.append(f"similarity {example['similarity']:.2f} to {example['twin']}, {example['cluster_size']} alike")
    if "item" in example:
        facts.append(f"{_count(example['hits'])} n-grams of {example['item']}, {_percent(example['share'])} of its own")
    return f"<li><q dir='auto'>{escape(example['excerpt'])}</q><small>{escape(' · '.join(facts))}</small></li>"


def _bad_rows(bad: dict[str, Any]) -> str:
    if not bad["count"]:
        return ""
    reasons = ", ".join(f"{escape(reason)} {_count(number)}" for reason, number in bad["reasons"].items())
    rows = "".join(
        f"<tr><td>{escape(row['file'])}</td><td class='n'>{row['line'] if row['line'] is not None else '–'}</td>"
        f"<td>{escape(row['reason'])}</td><td dir='auto'>{escape(row['detail'] or row['excerpt'])}</td></tr>"
        for row in bad["examples"]
    )
    return (
        f"<h2>Rows that could not be read</h2><p class='note'>{_count(bad['count'])} in all: {reasons}. The first:</p>"
        "<div class='scroll'><table><thead><tr>"
        "<th>File</th><th class='n'>line</th><th>Reason</th><th>What</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _mixture(mixture: dict[str, Any] | None, names: dict[str, Any]) -> str:
    if not mixture or not mixture["languages"]:
        return ""
    largest = max(max(entry["share"], entry["weight"]) for entry in mixture["languages"].values())
    rows = []
    for code, entry in sorted(mixture["languages"].items(), key=lambda item: (-item[1]["weight"], item[0])):
        bars = "".join(
            f"<rect y='{y}' width='{100 * entry[kind] / largest:.3f}' height='4.4' style='fill:var(--{colour})'>"
            f"<title>{words}: {_percent(entry[kind])}</title></rect>"
            for kind, words, colour, y in (("share", "text", "duplicates", 0), ("weight", "mixture", "kept", 5.2))
        )
        rows.append(
            f"<tr><td>{escape(names.get(code, {}).get('name', code))} <code>{escape(code)}</code></td><td class='bar'>"
            f"<svg viewBox='0 0 100 10' preserveAspectRatio='none' role='img'>{bars}</svg></td>"
            f"<td class='n'>{_percent(entry['share'])}</td><td class='n'>{_percent(entry['weight'])}</td></tr>"
        )
    return (
        f"<h2>Mixture</h2><p class='note'>How much of each language there is, and how much the tokenizer "
        f"and the training see (alpha {mixture['alpha']:g}).</p><div class='legend'>"
        "<span><i style='background:var(--duplicates)'></i>share of the text</span>"
        "<span><i style='background:var(--kept)'></i>weight in the mixture</span></div>"
        "<div class='scroll'><table><thead><tr><th>Language</th><th></th><th class='n'>text</th>"
        f"<th class='n'>mixture</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
