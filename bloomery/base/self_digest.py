"""JSON files that contain a digest of their own content, so that a change of a single byte is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bloomery.base.atomic import dump_json, read_json_and_bytes, write_json
from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError

KEY = "own_digest"
"""Key of the digest in the file. The digest covers all other keys and their values."""


def with_own_digest(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` with the digest of its other keys under `KEY`."""
    rest = without_own_digest(value)
    return {**rest, KEY: digest_json(rest)}


def without_own_digest(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` without the key `KEY`."""
    return {key: item for key, item in value.items() if key != KEY}


def write_with_own_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` and its digest as JSON, atomically."""
    write_json(path, with_own_digest(value))


def check_own_digest(value: Any, where: Path, *, restore: str) -> Any:
    """Return `value` without its digest. A value that is not a JSON object has no digest and is returned unchanged.

    Files of earlier versions have no digest. Their content is not checked.

    Args:
        value: content of the file.
        where: path of the file, for the error message.
        restore: how a user gets an undamaged file, for the error message.

    Raises:
        InputError: the content does not match the digest.
    """
    if not isinstance(value, dict):
        return value
    rest = without_own_digest(value)
    if KEY in value and value[KEY] != digest_json(rest):
        raise _changed("its content does not match its own digest", where, restore)
    return rest


def check_file(path: Path, *, restore: str, required: bool = True) -> Any:
    """Return the content of a JSON file after checking every byte of it against the file's own digest.

    Args:
        path: the file.
        restore: how a user gets an undamaged file, for error messages.
        required: whether a file without a digest is an error. Otherwise its content is returned unchecked.

    Raises:
        InputError: the file is missing or not JSON, it changed after it was written, or it lacks a required digest.
        TryAgainError: the disk or file server does not respond.
    """
    value, content = read_json_and_bytes(path)
    if not isinstance(value, dict) or KEY not in value:
        if not required:
            return value
        raise InputError(
            f"the file has no digest of its own (the key {KEY!r}); it changed, or an earlier version wrote it",
            where=str(path),
            expected=f"a file that this version of Bloomery wrote; {restore}",
        )
    if content != dump_json(value).encode():
        raise _changed("its text is not in Bloomery's format", path, restore)
    return check_own_digest(value, path, restore=restore)


def _changed(how: str, where: Path, restore: str) -> InputError:
    return InputError(
        f"the file changed after it was written: {how}", where=str(where), expected=f"an unchanged file; {restore}"
    )
