"""Describe in words which values a key accepts. The description is made from the key's type and limits."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from bloomery.base.units import SIZE_SCHEMA
from bloomery.config.keys import models_in

_KEYS_SHOWN = 4
PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "a name of letters, digits, '.', '_' and '-' that starts with a letter or a digit",
    "^(parameters|uniform|type:.+)$": "'parameters', 'uniform', or 'type:' followed by a regular expression for kinds "
    "of layers (embedding, norm, transformer, head)",
    "^[A-Z]{3}$": "a country code of three capital letters (ISO 3166-1 alpha-3)",
}
"""Pattern of a key -> the values that match it, in words. A test checks that every pattern of a key is listed."""
_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def described(annotation: Any) -> str:
    """Return which values the type `annotation` allows, as a noun phrase such as `a whole number above 0`."""
    annotation, limits = _unwrapped(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if _is_size(limits):
        return f"a size such as 1048576, '64MiB' or '2GB'{_limited(limits)}"
    if origin in (Union, types.UnionType):
        return _choice(arguments)
    if origin is Literal:
        choices = ", ".join(repr(choice) for choice in arguments)
        return f"one of {choices}" if len(arguments) > 1 else choices
    if origin in (list, tuple):
        least = next((limit.min_length for limit in limits if getattr(limit, "min_length", None)), 0)
        entries = f" with at least {least} {'entry' if least == 1 else 'entries'}" if least else ""
        return f"a list{entries}, where each entry is {described(arguments[0])}"
    if origin is dict:
        return f"a mapping from names to values, where each value is {described(arguments[1])}"
    if _is_section(annotation):
        return _section([annotation])
    pattern = next((found for limit in limits if (found := getattr(limit, "pattern", None))), None)
    if annotation is str and pattern is not None:
        return f"{PATTERNS.get(pattern, f'text that matches the regular expression {pattern}')}{_longest(limits)}"
    kind = _PLAIN.get(annotation) or f"a value of the Python type {getattr(annotation, '__name__', annotation)}"
    text = f"{kind}{_limited(limits)}{_longest(limits)}"
    return "text that is not empty" if annotation is str and any(_least(limit) for limit in limits) else text


def _choice(arguments: Sequence[Any]) -> str:
    sections = [found for argument in arguments if _is_section(found := _unwrapped(argument)[0])]
    plain = [
        argument for argument in arguments if argument is not type(None) and _unwrapped(argument)[0] not in sections
    ]
    texts = [described(argument) for argument in plain] + ([_section(sections)] if sections else [])
    return " or ".join(dict.fromkeys(texts)) + (", or null" if type(None) in arguments else "")


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _section(sections: list[type[BaseModel]]) -> str:
    """Describe a value that must be one of `sections`. The text names the first keys that all of them have."""
    first, *others = sections
    keys = [name for name in first.model_fields if all(name in other.model_fields for other in others)]
    return f"a mapping with keys such as {', '.join(keys[:_KEYS_SHOWN])}"


def types_at(model: type[BaseModel], location: Sequence[int | str]) -> list[Any]:
    """Return the types that a value at `location` may have. The members of a union are followed separately."""
    found: list[Any] = [model]
    for part in location:
        following: list[Any] = []
        for annotation in found:
            if isinstance(part, str):
                following += [_annotated(field) for field in _fields(annotation, part)]
            following += _members(annotation, part)
        found = following
    return found


def fields_at(model: type[BaseModel], location: Sequence[int | str]) -> list[FieldInfo]:
    """Return the fields that the last part of `location` names. A member of a list or mapping is not a field."""
    if not location:
        return []
    *parents, last = location
    return [field for annotation in types_at(model, parents) for field in _fields(annotation, str(last))]


def _fields(annotation: Any, name: str) -> list[FieldInfo]:
    """Return the fields called `name` of the sections that this type allows. Sections inside lists are ignored."""
    annotation, _ = _unwrapped(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return [field for argument in get_args(annotation) for field in _fields(argument, name)]
    if get_origin(annotation) in (list, tuple, dict):
        return []
    return [section.model_fields[name] for section in models_in(annotation) if name in section.model_fields]


def _annotated(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _members(annotation: Any, part: int | str) -> list[Any]:
    """Return the types of the members of a list or mapping that `annotation` allows."""
    annotation, _ = _unwrapped(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return [member for argument in arguments for member in _members(argument, part)]
    if (isinstance(part, int) and origin in (list, tuple)) or (isinstance(part, str) and origin is dict):
        return [arguments[0] if isinstance(part, int) else arguments[1]]
    return []


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the type inside `Annotated`, and the metadata that restrict its values."""
    limits: list[Any] = []
    while get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        for item in metadata:
            limits += item.metadata if isinstance(item, FieldInfo) else [item]
    return annotation, limits


def _is_size(limits: Iterable[Any]) -> bool:
    return any(isinstance(limit, WithJsonSchema) and limit.json_schema == SIZE_SCHEMA for limit in limits)


def _limited(limits: Sequence[Any]) -> str:
    found = [
        f"{word} {_number(value)}"
        for name, word in _LIMITS.items()
        for limit in limits
        if (value := getattr(limit, name, None)) is not None
    ]
    text = " and ".join(found)
    return f" of {text}" if text.startswith("at ") else f" {text}" if text else ""


def _number(value: float) -> str:
    if isinstance(value, int) and value > 1_000_000 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return str(value) if isinstance(value, int) else f"{value:g}"


def _longest(limits: Iterable[Any]) -> str:
    found = [limit.max_length for limit in limits if getattr(limit, "max_length", None) is not None]
    return f", at most {found[0]} characters" if found else ""


def _least(limit: Any) -> bool:
    return bool(getattr(limit, "min_length", None))
