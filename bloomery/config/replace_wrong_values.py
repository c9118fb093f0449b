"""Replace wrong values of a configuration by harmless ones, so that one validation can check all other values too."""

from __future__ import annotations

from typing import Any

Location = tuple[int | str, ...]

_REQUIRED: dict[str, Any] = {
    "name": "x",
    "model": {},
    "model.layers": 1,
    "model.hidden_size": 1,
    "model.heads": 1,
    "model.sequence_length": 8,
    "training": {},
    "training.train_samples": 1,
    "training.batch": {},
    "training.batch.global_batch_size": 1,
    "training.batch_scaling": {},
    "training.batch_scaling.base_batch": 1,
    "training.batch_scaling.base_learning_rate": 1.0,
    "training.optimizer": {},
    "training.optimizer.learning_rate": 1.0,
}
"""Valid values of keys that have no default, or that are required if other keys have their defaults."""


def path_text(location: Location) -> str:
    """Format a location as a key path, such as `sources[0].paths`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def touches(wrong: set[str], path: str) -> bool:
    """Return whether the path of a wrong value in `wrong` is `path` or the path of a section or list that contains
    it."""
    return any(path == other or path.startswith((f"{other}.", f"{other}[")) for other in wrong)


def replace_wrong_value(raw: dict[str, Any], location: Location) -> Location:
    """Replace or remove the wrong value at `location` of `raw`.

    If that is not possible, replace or remove the smallest section around the value for which it is possible.

    Returns:
        The location of the value that was replaced or removed. It is () if no value could be replaced or removed.
    """
    while location:
        parent, last = _value_at(raw, location[:-1]), location[-1]
        if location[0] == "sources" and len(location) <= 3:
            return _replace_wrong_source(raw, location)
        if isinstance(parent, dict):
            if (path := path_text(location)) in _REQUIRED:
                parent[last] = _copy(_REQUIRED[path])
                return location
            if found := [key for key in parent if str(key) == str(last)]:
                del parent[found[0]]
                return location
        location = location[:-1]
    return ()


def _replace_wrong_source(raw: dict[str, Any], location: Location) -> Location:
    if len(location) == 1:
        raw["sources"] = [_source(0)]
        return location
    number = int(location[1])
    source = raw["sources"][number]
    if not isinstance(source, dict):
        raw["sources"][number] = _source(number)
        return location
    if len(location) == 2:  # unknown kind: only the keys that every source has can be checked
        raw["sources"][number] = _source(number) | {key: source[key] for key in ("name", "language") if key in source}
        return (*location, "kind")
    required = _source(number)
    if location[2] in required:
        source[location[2]] = required[str(location[2])]
    elif location[2] in source:
        del source[location[2]]
    return location


def _source(number: int) -> dict[str, Any]:
    return {"name": f"source-{number}", "kind": "jsonl", "paths": ["x"]}


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def _value_at(raw: Any, location: Location) -> Any:
    for part in location:
        if isinstance(raw, dict):
            raw = next((value for key, value in raw.items() if str(key) == str(part)), None)
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            return None
    return raw
