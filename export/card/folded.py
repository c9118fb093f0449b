"""Fold a long part of the card, which readers can open with a click."""

from __future__ import annotations


def folded(title: str, text: str) -> str:
    """Return `text` below a title that shows and hides it. `title` is plain text of ours."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"
