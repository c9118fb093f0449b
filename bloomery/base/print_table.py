"""Tables for people: drawn by rich on a terminal, tab-separated plain text elsewhere (a pipe, a log)."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print `rows` under `columns` on stdout."""
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
        # As it is: `[embed|2]` is a pipeline stage and `[/data]` a path, no markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_titled(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """A table whose title and columns are also there in plain text, where `print_table` leaves them out."""
    if not sys.stdout.isatty():
        print("\n".join([f"\n{title}", *(["\t".join(columns)] if columns else [])]))
    print_table(columns or ("", ""), rows, title=title)
