"""A catalogue: one table that lists sources, one a row, for a corpus of many of them.

`catalogue: sources.csv` in a run's YAML appends the rows to its `sources`. Columns are the keys of a source (`name`,
`kind`, `paths`, `language`, `licence`, `recipe`, `weight`, ...); an empty cell is the key's default; a cell of several
values has `;` between them. From then on there are only sources: nothing else knows of the table.
"""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin

from bloomery.base.errors import ConfigError
from bloomery.config.keys import models_in
from bloomery.config.section import Problem
from bloomery.config.sources import AnySource

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PLACE = re.compile(r"sources\[(\d+)\](?:\.([a-z_]+))?(?:\[\d+\])?")


class Catalogue:
    """The rows of a table, as the YAML would say them, and where each stands."""

    def __init__(self, path: Path) -> None:
        """Read a table.

        Raises:
            ConfigError: the file is not a table of sources; it names the line, the column and what would be right.
        """
        self.path = path
        self.sources: list[dict[str, Any]] = []
        self._lines: list[int] = []
        delimiter = _DELIMITERS.get(path.suffix.lower())
        if delimiter is None:
            raise ConfigError("is no table", where=str(path), expected="a file that ends in .csv or .tsv")
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                self._read(csv.reader(file, delimiter=delimiter, strict=True))
        except FileNotFoundError as error:
            raise ConfigError(
                "no such file", where=f"catalogue {path}", expected=f"a table, absolute or relative to {Path.cwd()}"
            ) from error
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(
                f"cannot be read ({error})", where=f"catalogue {path}", expected="a table in UTF-8, quotes closed"
            ) from error

    def _read(self, rows: Any) -> None:
        columns = _stripped(next(rows, []))
        _check_columns(columns, str(self.path))
        line = rows.line_num + 1
        for row in rows:
            if cells := _stripped(row):
                if len(cells) > len(columns):
                    raise ConfigError(
                        f"{len(cells)} cells",
                        where=f"{self.path}, line {line}",
                        expected=f"at most {len(columns)}, one a column; ';' stands between several values of a cell",
                    )
                said = zip(columns, cells, strict=False)
                self.sources.append({column: _value(column, cell) for column, cell in said if cell})
                self._lines.append(line)
            line = rows.line_num + 1  # a cell in quotes may go over several lines

    def placed(self, problem: Problem, before: int) -> Problem:
        """The problem with the table's line and column where it is about a row; `before`: sources of the YAML."""

        def place(match: re.Match[str]) -> str:
            row = int(match.group(1)) - before
            if row < 0:
                return match.group(0)
            column = f", column {match.group(2)}" if match.group(2) else ""
            return f"{self.path}, line {self._lines[row]}{column}"

        key, reason = _PLACE.sub(place, problem.key), _PLACE.sub(place, problem.reason)
        if key != problem.key and key not in reason:
            reason = f"{key}: {reason}"
        return replace(problem, key=key, reason=reason)


def _stripped(cells: list[str]) -> list[str]:
    """Cells without white space around them, and without the empty ones that spreadsheets leave at the end."""
    stripped = [cell.strip() for cell in cells]
    while stripped and not stripped[-1]:
        stripped.pop()
    return stripped


def _check_columns(columns: list[str], where: str) -> None:
    known = sorted(_KEYS)
    problems = []
    for column in columns:
        if column not in _KEYS:
            near = difflib.get_close_matches(column, known, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            problems.append(f"{column!r} is no key of a source{hint}")
        elif columns.count(column) > 1:
            problems.append(f"{column!r} is there twice")
    problems += [f"there is no column {column!r}" for column in ("name", "kind") if column not in columns]
    if problems:
        said = "; ".join(dict.fromkeys(problems))
        raise ConfigError(said, where=f"{where}, line 1", expected=f"columns among {', '.join(known)}")


def _value(column: str, cell: str) -> str | list[str]:
    return [value for value in map(str.strip, cell.split(";")) if value] if _KEYS[column] else cell


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


_KEYS = {
    name: _is_list(field.annotation) for model in models_in(AnySource) for name, field in model.model_fields.items()
}
"""Every key of a source of any kind, and whether it holds several values."""
