"""Refuse JSON files of transformers that name Python code to run. Such code comes with a model or from a Hub.

With `trust_remote_code=True`, transformers imports and runs the code that the key `auto_map` names. Bloomery's models
need no such code, so Bloomery does not run it, and does not publish a file that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError

REMOTE_CODE_KEYS = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_generate")
"""Keys with which files of transformers name code that is not part of transformers."""


def refuse_remote_code(path: Path) -> None:
    """Refuse a JSON file of a model or tokenizer that names Python code, at any depth of the file.

    Raises:
        InputError: the file names code, or it is damaged.
    """
    key = _named_key(read_json(path, any_integer=True))
    if key is not None:
        raise InputError(
            f"the key {key!r} makes transformers run Python code that is not part of transformers",
            where=str(path),
            expected="a file without this key; remove the key, or import the tokenizer again",
        )


def _named_key(value: Any) -> str | None:
    if isinstance(value, dict):
        named = next((key for key in REMOTE_CODE_KEYS if key in value), None)
        return named or next((key for each in value.values() if (key := _named_key(each)) is not None), None)
    if isinstance(value, list):
        return next((key for each in value if (key := _named_key(each)) is not None), None)
    return None
