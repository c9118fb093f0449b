"""A catalogue is a table that lists the sources of a large corpus, one source per row.

`catalogue: sources.csv` in a run's YAML appends the rows to its `sources`. The columns are the keys of a source
(`name`, `kind`, `paths`, `language`, `licence`, `recipe`, `weight`, ...). An empty cell takes the key's default, and
`;` separates several values in one cell. After loading, only `sources` remains: no other code reads the table.
"""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin

from bloomery.base.errors import ConfigError
from bloomery.base.unreadable import why_unreadable
from bloomery.config.keys import models_in
from bloomery.config.section import Problem
from bloomery.config.sources import AnySource

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PLACE = re.compile(r"sources\[(\d+)\](?:\.([a-z_]+))?(?:\[\d+\])?")


class Catalogue:
    """The sources that a table lists. Each source has the form that it would have in a YAML file."""

    def __init__(self, path: Path) -> None:
        """Read a table.

        Raises:
            ConfigError: the file cannot be read, or it is not a valid table of sources. For a wrong table, the error
                names the line.
        """
        self.path = path
        self.sources: list[dict[str, Any]] = []
        self._lines: list[int] = []
        delimiter = _DELIMITERS.get(path.suffix.lower())
        if delimiter is None:
            raise ConfigError(
                "the file name ends in neither .csv nor .tsv",
                where=f"catalogue {path}",
                expected="a table of sources, with columns separated by commas (.csv) or by tabs (.tsv)",
            )
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                self._read(csv.reader(file, delimiter=delimiter, strict=True))
        except FileNotFoundError as error:
            raise ConfigError(
                "no such file",
                where=f"catalogue {path}",
                expected="as the value of the key `catalogue`, the path of an existing .csv or .tsv file. "
                f"A relative path starts in {Path.cwd()}",
            ) from error
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(
                f"cannot be read ({why_unreadable(error)})",
                where=f"catalogue {path}",
                expected="a readable .csv or .tsv file in UTF-8, in which each cell that starts with a quotation mark "
                "also ends with one",
            ) from error

    def _read(self, rows: Any) -> None:
        columns = _stripped(next(rows, []))
        _check_columns(columns, str(self.path))
        line = rows.line_num + 1
        for row in rows:
            if cells := _stripped(row):
                if len(cells) > len(columns):
                    raise ConfigError(
                        f"the row has {len(cells)} cells",
                        where=f"{self.path}, line {line}",
                        expected=f"at most {len(columns)} cells, one for each column of line 1. Use ';' to separate "
                        "several values in one cell",
                    )
                said = zip(columns, cells, strict=False)
                self.sources.append({column: _value(column, cell) for column, cell in said if cell})
                self._lines.append(line)
            line = rows.line_num + 1  # a quoted cell may span several lines

    def placed(self, problem: Problem, before: int) -> Problem:
        """Return the problem with the table's line and column in place of `sources[n]`.

        A problem of a source in the YAML is returned unchanged. `before` is the number of sources in the YAML. They
        precede the sources of the table.
        """

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
    """Strip white space around each cell and drop the empty cells that spreadsheets append to a row."""
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
            problems.append(f"column {column!r} is not a key of a source{hint}")
        elif columns.count(column) > 1:
            problems.append(f"column {column!r} appears more than once")
    problems += [f"column {column!r} is missing" for column in ("name", "kind") if column not in columns]
    if problems:
        said = "; ".join(dict.fromkeys(problems))
        raise ConfigError(
            said,
            where=f"{where}, line 1",
            expected="the column names `name`, `kind` and any of the other keys of a source, each once: "
            f"{', '.join(key for key in known if key not in ('name', 'kind'))}",
        )


def _value(column: str, cell: str) -> str | list[str]:
    return [value for value in map(str.strip, cell.split(";")) if value] if _KEYS[column] else cell


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


_KEYS = {
    name: _is_list(field.annotation) for model in models_in(AnySource) for name, field in model.model_fields.items()
}
"""Key of any kind of source -> true if the value of the key is a list."""
