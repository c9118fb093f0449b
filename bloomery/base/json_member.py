"""Read one value of a JSON file whose other values do not matter."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError

T = TypeVar("T")


def read_member(path: Path, *keys: str, kind: type[T]) -> T:
    """Return the value at the path `keys` of a JSON file. Without keys, return the whole content.

    Raises:
        InputError: the file is missing or damaged, or has no value of the type `kind` at this path.
    """
    value = read_json(path)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, kind):
        raise InputError(
            f"{'.'.join(keys) or 'the content'} is missing or has the wrong type",
            where=str(path),
            expected="a file that the workflow wrote; restore the file, or delete it and run the workflow again",
        )
    return value
