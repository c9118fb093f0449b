"""Escape text of other programs and people, so that a Markdown page, such as a model card, shows it literally."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from bloomery.base.visible_text import visible_text

_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that begin markup anywhere in a line. `_` inside a word, as in `fr_text`, does not."""


def markdown_text(text: str) -> str:
    """Return `text` as one line that a Markdown page, or a cell of its tables, shows literally.

    Line breaks become spaces. HTML and Markdown's own characters are escaped. Control characters become text such as
    `\\x1b`.
    """
    line = " ".join(visible_text(text).split())
    return _SPECIAL.sub(lambda match: f"\\{match.group()}", html.escape(line, quote=False))


def markdown_code(text: str) -> str:
    """Return `text` as one line of inline code, which Markdown shows literally, also in a cell of a table."""
    line = " ".join(visible_text(text).split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence, space = "`" * (longest + 1), " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table without a newline at its end. The cells may contain any text, and are shown literally."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(markdown_text, row)) + " |" for row in rows)])
