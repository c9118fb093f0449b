"""Suggest a known key of the configuration for an unknown key."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from bloomery.config.describe_type import types_at
from bloomery.config.keys import models_in
from bloomery.config.known_as import key_known_as
from bloomery.config.replace_wrong_values import Location, path_text

_TYPING_ERROR = 0.8
_SAME_SECTION = 0.6
_ANYWHERE = 0.75
_MOST_LISTED = 12


def suggestion(location: Location, model: type[BaseModel], value: Any = None) -> str:
    """Return a suggestion of what to write instead of the unknown key at `location`, as the end of a sentence.

    The suggestion is the key that was probably meant. If no key is similar, it lists the keys of the section, or
    names the page that lists them if there are many. It is empty if the section has no keys.

    These candidates are tried in this order: the name that another project gives to a key of the same section, the same
    name in another section, the name that another project gives to any key, a similar name in the same section, a
    similar name anywhere. If `value` is a mapping, keys that are sections are preferred to keys that hold a single
    value.
    """
    wrong, section = str(location[-1]), location[:-1]
    known = list(key_paths(model))
    own = _names_at(model, section)
    same = [path for path in known if _last(path) == wrong and path != _pattern(location)]
    other = key_known_as(f"{section[-1]}.{wrong}" if section else wrong) or key_known_as(wrong)
    is_near = other is not None and other[0].rpartition(".")[0] == _pattern(section)
    if not is_near and same and wrong not in own:
        return f"; did you mean {_nearest(same, section, model, value)!r}?"
    if wrong in {_last(path) for path in known if path == _pattern(location)}:
        return "; only sources of another kind have this key, so remove it or change `kind`"
    if other is not None and other[0] in known:
        key, note = other
        return f"; did you mean {_in_place(key, section)!r}?{f' ({note})' if note else ''}"
    # If the unknown key is one word of a known key, that key is suggested (`until`: `until_iteration`). Typing errors
    # are tried first (`layer`: `layers`).
    whole = [name for name in sorted(own) if wrong in name.split("_")]
    typing_error = difflib.get_close_matches(wrong, sorted(own), n=1, cutoff=_TYPING_ERROR)
    similar = difflib.get_close_matches(wrong, sorted(own), n=1, cutoff=_SAME_SECTION)
    if found := typing_error or whole[:1] or similar:
        return f"; did you mean {path_text((*section, found[0]))!r}?"
    names = list(dict.fromkeys(_last(path) for path in known))
    if found := difflib.get_close_matches(wrong, names, n=1, cutoff=_ANYWHERE):
        near = [path for path in known if _last(path) == found[0]]
        return f"; did you mean {_nearest(near, section, model, value)!r}?"
    if len(own) > _MOST_LISTED:
        return "; config/README.md lists the keys of this section"
    return f"; the keys of this section are {', '.join(sorted(own))}" if own else ""


def key_paths(model: type[BaseModel]) -> Iterator[str]:
    """Yield the path of every key. Keys in a list have paths such as `sources[].paths`, keys in a mapping such as
    `words.<name>`."""
    yield from dict.fromkeys(_below(model, ""))


def _below(annotation: Any, prefix: str) -> Iterator[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _below(arguments[0], prefix)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _below(argument, prefix)
    elif origin in (list, tuple):
        yield from _below(arguments[0], f"{prefix}[]")
    elif origin is dict:
        yield from _below(arguments[1], f"{prefix}.<name>")
    else:
        for section in models_in(annotation):
            for name, field in section.model_fields.items():
                path = f"{prefix}.{name}" if prefix else name
                yield path
                yield from _below(field.annotation, path)


def _names_at(model: type[BaseModel], section: Location) -> set[str]:
    return {name for annotation in types_at(model, section) for inner in models_in(annotation)
            for name in inner.model_fields}  # fmt: skip


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1].removesuffix("[]")


def _pattern(location: Location) -> str:
    """Return the location as a path, with `[]` instead of each list index."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _nearest(paths: list[str], section: Location, model: type[BaseModel], value: Any) -> str:
    """Return the path that has the largest number of leading parts in common with the section of the wrong key.

    Among equally good paths, return the shortest.
    """
    here = _pattern(section).split(".")

    def rank(path: str) -> tuple[bool, int, int]:
        parts = path.split(".")
        common = next(
            (n for n, (a, b) in enumerate(zip(parts, here, strict=False)) if a != b), min(len(parts), len(here))
        )
        holds_keys = any(models_in(found) for found in types_at(model, _location(path)))
        return (isinstance(value, dict) and not holds_keys, -common, len(parts))

    return _in_place(min(paths, key=rank), section)


def _location(path: str) -> Location:
    found: list[int | str] = []
    for part in path.split("."):
        found.append(part.removesuffix("[]"))
        if part.endswith("[]"):
            found.append(0)
    return tuple(found)


def _in_place(path: str, section: Location) -> str:
    """Return `path`. If the path begins with `section`, replace `[]` by the list indices of `section`."""
    here = _pattern(section)
    if section and path.startswith(f"{here}."):
        return path_text(section) + path[len(here) :]
    return path
