"""Parse JSON text that another program or a person may have changed.

Python's own parser accepts texts that cause errors later, in code that cannot name the file. Such texts contain NaN,
numbers that overflow, repeated keys, deep nesting, or halves of surrogate pairs, which UTF-8 cannot encode. This module
refuses all of them.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Deepest accepted nesting of lists and objects. Deeper values could overflow Python's stack in later code."""
GREATEST = 2**63
"""Largest accepted absolute value of an integer. Larger integers do not fit in arrays, and very large ones also
overflow floating-point numbers."""


class JsonValueError(ValueError):
    """A JSON text contains a value that this module refuses. The message states the reason."""


def parse_json(text: str | bytes, *, any_integer: bool = False) -> Any:
    """Parse one JSON value.

    Args:
        text: the text; bytes must be UTF-8.
        any_integer: whether to accept integers beyond 2^63, which other programs write into their own files.

    Raises:
        ValueError: the text is not UTF-8 (UnicodeDecodeError), not JSON (json.JSONDecodeError), or contains a value
            that is refused (JsonValueError). `bloomery.base.unreadable.why_unreadable` describes each of these errors.
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value = (_ANY_INTEGER if any_integer else _STRICT).decode(text)
    except RecursionError:
        raise _too_deep() from None
    if _is_too_deep(value):
        raise _too_deep()
    if "\\ud" in text or "\\uD" in text:
        _refuse_half_pairs(value)
    return value


def _too_deep() -> JsonValueError:
    return JsonValueError(f"lists and objects are nested more than {MAX_DEPTH} levels deep")


def _is_too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        members = (member for item in level for member in (item.values() if isinstance(item, dict) else item))
        level = [member for member in members if isinstance(member, dict | list)]
    return bool(level)


def _refuse_half_pairs(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonValueError("a text contains half of a surrogate pair, which UTF-8 cannot encode") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise JsonValueError(f"the key {twice[:60]!r} occurs more than once in an object")
    return found


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonValueError(f"the number {digits[:30]} is too large")
    return value


def _integer(digits: str) -> int:
    # Check the length first, because Python cannot convert numbers of thousands of digits.
    if len(digits) > 20 or abs(int(digits)) > GREATEST:
        raise JsonValueError(f"the number {digits[:30]}{'...' * (len(digits) > 30)} is beyond 2^63")
    return int(digits)


def _refuse(constant: str) -> NoReturn:
    raise JsonValueError(f"{constant} is not a JSON number")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_refuse)
_ANY_INTEGER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_refuse)
