"""Fold a long part of the card, which readers can open with a click."""

from __future__ import annotations


def folded(title: str, text: str) -> str:
    """Return `text` below a title that shows and hides it. `title` is not escaped, so it must be a fixed text."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"
