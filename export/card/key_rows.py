"""Flatten a section of the configuration into rows of keys and values, for a table of the card."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any


def key_rows(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each key with its value as JSON. Keys of nested sections are joined with dots, such as `optimizer.beta1`.

    A list counts as one value, and so does an empty mapping.
    """
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from key_rows(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, json.dumps(value, ensure_ascii=False)


def without_keys(rows: Iterable[tuple[str, str]], left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the rows except those of the keys `left_out`, such as keys whose values are paths of a machine."""
    return (row for row in rows if row[0] not in left_out)


def pick(section: Mapping[str, Any], key: str) -> object:
    """Return the value of a dotted key, such as `thresholds.default`. Return None if the section does not have it."""
    value: object = section
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
