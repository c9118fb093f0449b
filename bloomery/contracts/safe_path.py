"""Check names and paths that files of a run contain. A `SafeName` or `SafePath` never leads out of its folder.

Another program or a person may have changed a file of a run. A path in this file, such as `../../etc/hostname`, must
not be read, published, or shown as part of the run.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_BYTES = 200
"""Longest part of a path, in bytes. Common file systems accept 255 bytes, and suffixes such as `.documents.parquet` are
added."""

_MOST_BYTES_OF_PATH = 2000


def checked_name(value: str) -> str:
    """Return `value` if it is the name of one file or folder: letters, digits, `.`, `_`, `-`, not beginning with `.`.

    Raises:
        ValueError: `value` is not such a name, for example because it is a path.
    """
    if not _NAME.fullmatch(value) or len(value) > _MOST_BYTES:
        raise ValueError("the name of one folder, with letters, digits, `.`, `_` and `-` only, such as 'step00000100'")
    return value


def checked_path(value: str) -> str:
    """Return `value` if it is a relative path with `/` that stays below its folder.

    Raises:
        ValueError: the path is empty or absolute, contains `..`, `.` or an empty part, or a character that is not
            printable.
    """
    parts = value.split("/")
    legal = all(part not in ("", ".", "..") and len(part.encode()) <= _MOST_BYTES for part in parts)
    if not legal or not value.isprintable() or PurePosixPath(value).is_absolute():
        raise ValueError("a relative path below this folder, without '..', such as 'arrays/documents.npy'")
    return value


def checked_read_path(value: str) -> str:
    """Return `value` if a file system can hold such a path. It may lead to any folder, so never write to it.

    Raises:
        ValueError: the path is empty or too long, or contains a character that is not printable.
    """
    short = len(value.encode()) <= _MOST_BYTES_OF_PATH
    short = short and all(len(part.encode()) <= _MOST_BYTES for part in value.split("/"))
    if not value or not short or not value.isprintable():
        raise ValueError("the path of a file, such as 'tokens/web/00000'")
    return value


SafeName = Annotated[str, AfterValidator(checked_name)]
"""The name of one file or folder."""

SafePath = Annotated[str, AfterValidator(checked_path)]
"""A relative path that stays below its folder."""


ReadPath = Annotated[str, AfterValidator(checked_read_path)]
"""A path that may lead to any folder."""


def refuse_outside(folder: Path, path: Path) -> None:
    """Refuse a file whose symbolic links lead out of `folder`.

    Raises:
        InputError: the file is outside.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            "this path is a symbolic link to a place outside of the folder",
            where=str(path),
            expected=f"a file in {folder}; replace the link by a copy of the file",
        )


def read_part_names(path: Path) -> list[str]:
    """Read a list of part names (`<source>/<number>`), such as config/parts.json.

    Raises:
        InputError: the file is missing or damaged, or a name is not a relative path of two parts.
    """
    value = read_json(path)
    try:
        if not isinstance(value, list) or not all(isinstance(name, str) and name.count("/") == 1 for name in value):
            raise ValueError
        return [checked_path(name) for name in value]
    except ValueError:
        raise InputError(
            "not a list of part names",
            where=str(path),
            expected='a JSON list such as ["web/00000"]; start the workflow again to rewrite it',
        ) from None
