"""Show the environment variables of a configuration as they were written (`${NAME}`), never their values.

A value in the YAML may contain `${HF_TOKEN}`. The program needs the variable's value; people and log files do not. This
module remembers every replaced text. `as_written` reverses the replacement in messages and log lines. Processes that a
workflow starts inherit the names of the variables, not the values, in an environment variable.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

NAMES_VARIABLE = "BLOOMERY_VARIABLES_IN_CONFIG"
"""Environment variable that holds the names of the variables that the configuration uses, separated by spaces."""
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A variable in a value of a configuration."""
_SHORTEST = 3
_SHORTEST_ANYWHERE = 8
_PLAIN_WORD = re.compile(r"[a-z_]+")

_written: dict[str, str] = {}
"""Text after the replacement -> text as it was written in the configuration."""


def expand(text: str, absent: Callable[[str], object]) -> str:
    """Replace `${NAME}` in `text` by the value of the environment variable, and remember the replacement.

    `absent` is called with the name of each variable that is not set; its `${NAME}` stays in the text.
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            absent(name)
            return match.group(0)
        _remember(os.environ[name], match.group(0))
        names = os.environ.get(NAMES_VARIABLE, "").split()
        os.environ[NAMES_VARIABLE] = " ".join(dict.fromkeys([*names, name]))
        return os.environ[name]

    expanded = VARIABLE.sub(replace, text)
    if expanded != text:
        _remember(expanded, text)
    return expanded


def as_written(text: str) -> str:
    """Return `text` with the values of the configuration's environment variables replaced by `${NAME}`.

    A value of fewer than 3 characters is left alone. A value of fewer than 8 characters, or of lower-case letters only,
    is replaced where it is a whole word, because it may occur inside an unrelated word.
    """
    for name in os.environ.get(NAMES_VARIABLE, "").split():
        if name in os.environ:  # a parent process used the variable
            _remember(os.environ[name], f"${{{name}}}")
    for value in sorted(_written, key=len, reverse=True):
        if value in text:
            text = _pattern(value).sub(lambda _, shown=_written[value]: shown, text)  # type: ignore[misc]
    return text


def tree_as_written(value: Any) -> Any:
    """Return plain data with `as_written` applied to every text in its lists and mappings. Keys are unchanged."""
    if isinstance(value, dict):
        return {key: tree_as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [tree_as_written(item) for item in value]
    return as_written(value) if isinstance(value, str) else value


def _remember(value: str, shown: str) -> None:
    for form in _forms(value):
        if len(form) >= _SHORTEST:
            _written[form] = shown


def _forms(value: str) -> Iterable[str]:
    """Return the value as it appears in text, in Python's quotes and in JSON."""
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def _pattern(value: str) -> re.Pattern[str]:
    escaped = re.escape(value)
    if len(value) >= _SHORTEST_ANYWHERE and not _PLAIN_WORD.fullmatch(value):
        return re.compile(escaped)
    # A word inside a key's path (`training.parallel.data`) is not replaced.
    return re.compile(rf"(?<!\w)(?<!\w\.){escaped}(?!\w|\.\w)")
