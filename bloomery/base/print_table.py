"""Tables on stdout: drawn by rich on a terminal, tab-separated plain text elsewhere (pipes, logs)."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print `rows` under `columns` on stdout. In plain text, `columns` and `title` are omitted."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", show_header=any(columns), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # `Text` disables rich's markup: `[embed|2]` is a pipeline stage and `[/data]` a path.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_titled(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table whose title and columns appear in plain text too, where `print_table` omits them."""
    if not sys.stdout.isatty():
        print("\n".join([f"\n{title}", *(["\t".join(columns)] if columns else [])]))
    print_table(columns or ("", ""), rows, title=title)
