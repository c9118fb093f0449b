"""The fertility report as one self-contained HTML page: inline SVG bars, no script, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from bloomery.base.units import format_bytes

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #646c76; --page: #ffffff; --bar: #2f6f9f; --line: #e3e7eb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #98a2ad; --page: #15181c; --bar: #6fb1de; --line: #2c3238; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 62rem;
  margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.05rem; margin: 2.25rem 0 .1rem; }
p { margin: .2rem 0 .9rem; color: var(--soft); max-width: 46rem; }
svg { display: block; width: 100%; min-width: 32rem; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .value { fill: var(--soft); } svg rect { fill: var(--bar); }
svg line { stroke: var(--soft); stroke-dasharray: 3 3; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem; }
th, td { text-align: right; padding: .28rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
"""

_ROW, _LABEL, _WIDTH, _RIGHT = 20, 56, 680, 64

_CHARTS: tuple[tuple[str, str, str, bool], ...] = (
    ("tokens_per_word", "Tokens per word", "Fertility: 1 would be a token for every word. Fewer is better.", False),
    ("bytes_per_token", "Bytes per token", "Compression of UTF-8. Scripts differ in bytes per character.", False),
    ("single_byte_share", "Single-byte tokens", "Share of tokens that are one byte. High: an unlearnt script.", True),
    ("parity", "Parity", "Tokens for as many bytes, relative to the reference (dashed line at 1).", False),
)

_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("documents", lambda row: f"{row['documents']}"),
    ("sampled", lambda row: format_bytes(row["bytes"])),
    ("tokens", lambda row: f"{row['tokens']:,}"),
    ("tokens / word", lambda row: _number(row["tokens_per_word"]) + ("*" if row["words_are"] != "words" else "")),
    ("bytes / token", lambda row: _number(row["bytes_per_token"])),
    ("characters / token", lambda row: _number(row["characters_per_token"])),
    ("single-byte", lambda row: f"{100 * row['single_byte_share']:.1f} %"),
    ("parity", lambda row: _number(row["parity"])),
)


def render(report: dict[str, Any]) -> str:
    """HTML page of `fertility_report`'s result."""
    languages: dict[str, dict[str, Any]] = report["languages"]
    reference = report["reference"]
    body = [
        "<h1>Tokenizer</h1>",
        f"<p>{report['vocabulary']:,} tokens, measured on a fixed sample of {len(languages)} languages"
        + (f"; the reference for parity is <b>{escape(reference)}</b>." if reference else ".")
        + "</p>",
    ]
    for key, title, explanation, percent in _CHARTS:
        values = {language: row[key] for language, row in languages.items() if row[key] is not None}
        body += [f"<h2>{title}</h2>", f"<p>{explanation}</p>", _bars(values, title, percent, key == "parity")]
    body += ["<h2>All figures</h2>", _table(languages), "<p>* words are characters in languages without spaces.</p>"]
    body += [f"<p>Digest of tokenizer.json: {escape(report['tokenizer'])}</p>"]
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Tokenizer report</title>\n<style>{_STYLE}</style>\n" + "\n".join(body) + "\n</html>\n"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _bars(values: dict[str, float], title: str, percent: bool, line_at_one: bool) -> str:
    """Horizontal bars, longest first (ties by name)."""
    ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    most = max([value for _, value in ordered] + [1.0 if line_at_one else 0.0]) or 1.0
    scale = (_WIDTH - _LABEL - _RIGHT) / most
    height = _ROW * len(ordered) + 4
    parts = [
        f'<div class="wide"><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)} per language">'
    ]
    for number, (language, value) in enumerate(ordered):
        top, length = number * _ROW, value * scale
        shown = f"{100 * value:.1f} %" if percent else f"{value:.2f}"
        parts.append(
            f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(language)}</text>'
            f'<rect x="{_LABEL}" y="{top + 4}" width="{length:.1f}" height="{_ROW - 6}" rx="2"/>'
            f'<text class="value" x="{_LABEL + length + 6:.1f}" y="{top + 15}">{shown}</text>'
        )
    if line_at_one:
        parts.append(f'<line x1="{_LABEL + scale:.1f}" x2="{_LABEL + scale:.1f}" y1="0" y2="{height}"/>')
    return "".join([*parts, "</svg></div>"])


def _table(languages: dict[str, dict[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name, _ in _COLUMNS)
    rows = "".join(
        f"<tr><td>{escape(language)}</td>" + "".join(f"<td>{show(row)}</td>" for _, show in _COLUMNS) + "</tr>"
        for language, row in languages.items()
    )
    return f'<div class="wide"><table><tr><th>language</th>{head}</tr>{rows}</table></div>'
