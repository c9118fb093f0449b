"""Tables on stdout: drawn by rich on a terminal, tab-separated plain text elsewhere (pipes, logs)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest

from bloomery.base.visible_text import visible_text


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", styles: Sequence[str] = ()
) -> None:
    """Print `rows` under `columns` on stdout. Control characters in a cell are made visible.

    Args:
        columns: header of each column; omitted in plain text.
        rows: texts of each row, one for each column.
        title: line above the table; omitted in plain text.
        styles: colour of each row on a terminal (a style of rich); `""` for no colour. Rows without an entry have no
            colour.
    """
    rows = [[visible_text(cell) for cell in row] for row in rows]
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
    for row, style in zip_longest(rows, styles, fillvalue=""):
        # `Text` disables rich's markup, which would misread the pipeline stage `[embed|2]` or the path `[/data]`.
        table.add_row(*(Text(cell) for cell in row), style=str(style) or None)
    Console().print(table)


def print_titled(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table whose title and columns appear in plain text too. (`print_table` omits them there.)"""
    if not sys.stdout.isatty():
        print("\n".join([f"\n{title}", *(["\t".join(columns)] if columns else [])]))
    print_table(columns or ("", ""), rows, title=title)
