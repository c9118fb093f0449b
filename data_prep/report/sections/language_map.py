"""Render a treemap of the kept text, with one rectangle per language whose area is the size of the language's text."""

from __future__ import annotations

from html import escape
from typing import Any

from bloomery.base.units import format_bytes
from data_prep.report.language_groups import GROUPS, group_of
from data_prep.report.treemap import Box, squarify
from data_prep.report.wording import percent

WIDTH, HEIGHT = 160.0, 90.0
_TOO_SMALL = 0.0005
"""Share of the text below which a rectangle is too small to see. These languages are also listed below the map."""


def language_map(report: dict[str, Any]) -> str:
    """Return the map, its legend, and a list of the languages that are too small to see."""
    sizes = {code: entry["bytes_out"] for code, entry in report["languages"].items() if entry["bytes_out"]}
    total = sum(sizes.values())
    if not total:
        return "<p class='note'>No text was kept.</p>"
    names = {code: report["languages"][code]["name"] for code in sizes}
    groups: dict[str, list[str]] = {}
    for code in sorted(sizes, key=lambda code: (-sizes[code], code)):
        groups.setdefault(group_of(code), []).append(code)
    weights = {group: sum(sizes[code] for code in codes) for group, codes in groups.items()}
    ordered = sorted(groups, key=lambda group: (-weights[group], group))
    tiles = []
    for group, box in zip(ordered, squarify([weights[g] for g in ordered], Box(0, 0, WIDTH, HEIGHT)), strict=True):
        codes = groups[group]
        for code, tile in zip(codes, squarify([sizes[code] for code in codes], box), strict=True):
            words = f"{format_bytes(sizes[code])}, {percent(sizes[code] / total)}"
            tiles.append(_tile(tile, group, code, names[code], words))
    legend = "".join(
        f"<span><i style='background:var(--{group})'></i>{GROUPS[group][0]} {percent(weights[group] / total)}</span>"
        for group in ordered
    )
    small = [code for code in sizes if sizes[code] / total < _TOO_SMALL]
    small_names = ", ".join(
        f"{escape(names[code])} {format_bytes(sizes[code])}" for code in sorted(small, key=lambda c: -sizes[c])
    )
    note = f"<p class='note'>Too small to see in the map: {small_names}.</p>" if small else ""
    return f"<ul class='treemap'>{''.join(tiles)}</ul><div class='legend'>{legend}</div>{note}"


def _tile(box: Box, group: str, code: str, name: str, words: str) -> str:
    place = (
        f"left:{100 * box.x / WIDTH:.4f}%;top:{100 * box.y / HEIGHT:.4f}%;"
        f"width:{100 * box.width / WIDTH:.4f}%;height:{100 * box.height / HEIGHT:.4f}%"
    )
    title = escape(f"{name}: {words}")
    # The name is shown only if it fits. The class tells the style sheet how many letters the tile must have room for.
    letters = next((step for step in (5, 8, 11, 14, 18, 22) if len(name) <= step), 32)
    return (
        f"<li style='{place};--group:var(--{group})' title='{title}' aria-label='{title}'>"
        f"<b class='w{letters}'>{escape(name)}</b><small>{words}</small><code>{escape(code)}</code></li>"
    )
