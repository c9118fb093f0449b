"""Make the table of all figures, with one row per language. Its columns can be sorted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from bloomery.base.units import format_bytes
from data_prep.report.wording import count, percent


@dataclass(frozen=True)
class Column:
    """Column of the table, which shows one figure of every language.

    `path` is the path of the figure in a language's report entry, and `limit` is the name of the figure's limit.
    """

    head: str
    path: tuple[str, ...]
    show: Callable[[Any], str]
    limit: str = ""

    def value(self, entry: dict[str, Any]) -> Any:
        """Return the figure of a language's entry, or None if the entry does not have it."""
        found: Any = entry
        for key in self.path:
            found = found.get(key) if found is not None else None
        return found


def two(value: float) -> str:
    """Format a number below 10 with two decimals and others with one: `1.2345` -> `1.23`, `12.34` -> `12.3`."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def signed(share: float) -> str:
    """Format a share as a percentage with its sign: `0.034` -> `+3.4 %`."""
    return f"{100 * share:+.1f}\u202f%".replace("-", "−")


def columns(report: dict[str, Any]) -> list[Column]:
    """Return the columns for which the report has figures."""
    found = [
        Column("sample", ("bytes",), format_bytes),
        Column("tokens", ("tokens",), count),
        Column("tokens / word", ("tokens_per_word",), two, "max_tokens_per_word"),
        Column("bytes / token", ("bytes_per_token",), two, "min_bytes_per_token"),
        Column("characters / token", ("characters_per_token",), two),
        Column("single bytes", ("single_byte_share",), percent, "max_single_byte_share"),
        Column("parity", ("parity",), two, "max_parity"),
    ]
    if any(entry["monolingual"] for entry in report["languages"].values()):
        found += [
            Column("own tokenizer: entries", ("monolingual", "vocabulary"), count),
            Column("own tokenizer: tokens / word", ("monolingual", "tokens_per_word"), two),
            Column("excess over own", ("over_monolingual",), signed, "max_over_monolingual"),
        ]
    found += [Column(name, ("references", name, "tokens_per_word"), two) for name in report["references"]]
    if report["references"]:
        found.append(Column("excess over best", ("over_reference",), signed, "max_over_reference"))
    return [
        *found,
        Column("tokens used", ("usage", "tokens_used"), count),
        Column("used only here", ("usage", "only_here"), count),
        Column("tokens for 99 %", ("usage", "covering"), count),
    ]


def figures(report: dict[str, Any]) -> str:
    """Return the HTML table with every figure of every language."""
    failed = {(one["language"], one["limit"]) for one in report["gate"]["failures"]}
    shown = columns(report)
    head = "".join(f"<th class='n' aria-sort='none'>{escape(column.head)}</th>" for column in shown)
    rows = []
    for code, entry in report["languages"].items():
        name = escape(entry["name"])
        cells = "".join(_cell(column, entry, (code, column.limit) in failed) for column in shown)
        rows.append(f"<tr><th scope='row' data-value='{name}'>{name} <code>{escape(code)}</code></th>{cells}</tr>")
    return (
        "<div class='scroll'><table class='figures'>"
        f"<thead><tr><th aria-sort='none'>language</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(column: Column, entry: dict[str, Any], failed: bool) -> str:
    found = column.value(entry)
    mark = "*" if column.head == "tokens / word" and entry["words_are"] != "words" else ""
    text = "–" if found is None else column.show(found) + mark
    return f"<td class='n{' bad' if failed else ''}' data-value='{'' if found is None else found}'>{text}</td>"
