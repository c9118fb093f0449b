"""Describe why a file cannot be read, in one phrase, for the errors of several libraries."""

from __future__ import annotations

import csv
import json
import os
import re
import tomllib

from bloomery.base.json_text import JsonValueError

_PLACE_IN_TOML = re.compile(r"at line (\d+), column (\d+)")


_PARQUET = (
    (
        r"magic bytes|smaller than the minimum|file size is 0 bytes",
        "not a Parquet file, or the end of the file is missing",
    ),
    (r"UTF-?8", "a text that is not UTF-8"),
    (r"[Cc]orrupt|[Dd]ecompress|Snappy|ZSTD", "a damaged compressed block"),
    (r"", "a damaged Parquet file, or a file that is cut off"),
)
"""Patterns in the messages of pyarrow, in the order of the search, and what they mean."""


def why_unreadable(error: Exception) -> str:
    """Return why a file cannot be read: an error of the disk, of UTF-8, JSON, TOML or CSV, or else a general reason."""
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {json_cause(error)} (line {error.lineno}, column {error.colno})"
    if isinstance(error, JsonValueError):
        return f"not valid JSON: {error}"
    if isinstance(error, tomllib.TOMLDecodeError):
        found = _PLACE_IN_TOML.search(str(error))
        place = f"in line {found.group(1)}, column {found.group(2)}" if found else "at the end of the file"
        return f'not valid TOML {place}; expected: lines such as `key = 1` or `key = "text"`, and each key once'
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text (invalid byte at position {error.start:,})"
    if isinstance(error, csv.Error):
        return "a quote that is not closed, or text after a closing quote"
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else "the disk reports an error"
    return "the file is damaged or has the wrong format"


def json_cause(error: json.JSONDecodeError) -> str:
    """Return what is wrong in a JSON text, without the line and column."""
    rest = error.doc[error.pos :].strip()
    if not error.doc.strip():
        return "the text is empty"
    if not rest or error.msg.startswith("Unterminated"):
        return "the text ends too early"
    if error.msg.startswith("Extra data"):
        return "there is more text after the end of the value"
    if error.msg.startswith("Invalid control"):
        return "there is a line break or a control character inside quotes"
    return "a value, a comma, a colon or a quote is missing"


def parquet_cause(error: Exception) -> str:
    """Return why a Parquet file cannot be read. `error` is an error of pyarrow or of the disk.

    This module does not import pyarrow, because a training does not need it.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return why_unreadable(error)
    return next(cause for pattern, cause in _PARQUET if re.search(pattern, str(error)))
