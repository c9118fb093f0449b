"""Read JSON Lines files with one object per line: plain, `.gz` or `.zst`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from bloomery.base.unreadable import json_cause
from bloomery.config.part_input import FilePiece
from bloomery.config.sources import JsonlSource
from data_prep.corpus.rows import BadRow, Fields, Item, Observe, excerpt_of, name_of, row_from_fields
from data_prep.corpus.sources.read_lines import decode_line, read_lines


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Created once, because `json.loads` with options creates a decoder for every row.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_jsonl(
    source: JsonlSource,
    files: list[str],
    max_bytes: int,
    piece: FilePiece | None = None,
    observe: Observe | None = None,
) -> Iterator[Item]:
    """Yield the rows of JSON Lines files, or of a piece of each file. Blank lines are skipped.

    `observe` is called with the fields of each row.
    """
    fields = Fields(source.text_field, source.language_field, source.id_field, source.language, max_bytes, observe)
    for path in files:
        name = name_of(path)
        for entry in read_lines(path, max_bytes, piece):
            if isinstance(entry, BadRow):
                yield entry
                continue
            line, data = entry
            if not data or data.isspace():
                continue
            yield _parse(data, fields, name, line)


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{json_cause(error)} (column {error.colno})"
    return "brackets are nested too deeply" if isinstance(error, RecursionError) else str(error)


def _parse(data: bytes, fields: Fields, file: str, line: int) -> Item:
    text = decode_line(data, file, line)
    if isinstance(text, BadRow):
        return text
    try:
        value: Any = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return BadRow(file, line, "invalid JSON", _reason(error), excerpt_of(text))
    if not isinstance(value, dict):
        return BadRow(
            file, line, "not an object", f"the line holds a value of type {type(value).__name__}", excerpt_of(text)
        )
    return row_from_fields(value, fields, file, line)
