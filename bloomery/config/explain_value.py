"""Explain which values a key accepts instead of a wrong value, with an example.

pydantic finds the wrong values. Its messages name Python types and patterns, so this module writes other messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from bloomery.config.describe_type import described, fields_at, types_at
from bloomery.config.replace_wrong_values import Location, path_text

_OPTION_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "of at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "of at most"),
}
_OPTION_KINDS = {"int": "a whole number", "float": "a number", "finite": "a finite number", "bool": "true or false"}
"""Start of the type of a pydantic error -> the values that a command line option accepts, in words."""
_MAX_CHARACTERS = 60
_MOST_SHOWN = 3
_TAG = re.compile(r"(function-\w+|dict|list|constrained-\w+)\[|\[key\]$")
_OWN_MESSAGE = "value_error"
_NEED_NO_EXAMPLE = ("one of ", "true or false", "a size such as")
_UNION_TAGS = ("union_tag_invalid", "union_tag_not_found")


def wrong_values(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the wrong values of a file that a stage wrote, in one line. At most `_MOST_SHOWN` of them are described.

    Args:
        error: the problems that pydantic found.
        model: the type that the file must have.
    """
    found = []
    for detail in most_specific(error):
        location = location_of(detail)
        path = path_text(location) or "the file"
        if detail["type"] == "missing":
            found.append(f"{path}: missing")
        elif detail["type"] == "extra_forbidden":
            found.append(f"{path}: unknown key")
        else:
            right = right_value(detail, model, location)
            found.append(f"{path}: {shown(detail.get('input'))} is not valid; expected: {right}")
    found = list(dict.fromkeys(found))
    rest = len(found) - _MOST_SHOWN
    more = f"; and {rest} more problem{'s' if rest > 1 else ''}" if rest > 0 else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def wrong_option(error: ValidationError) -> str:
    """Describe the wrong value of a command line option."""
    detail = error.errors()[0]
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == _OWN_MESSAGE:  # Typer's own message lists the choices
        return detail["msg"].removeprefix("Value error, ").rstrip(".")
    if kind in _OPTION_LIMITS:
        name, words = _OPTION_LIMITS[kind]
        right = f"a number {words} {context[name]}"
    else:
        right = next(
            (words for start, words in _OPTION_KINDS.items() if kind.startswith(start)),
            "a value of the type that --help shows for this option",
        )
    return f"{shown(detail.get('input'))} is not valid; expected: {right}"


def location_of(detail: ErrorDetails) -> Location:
    """Return the path of the wrong value, without the names that pydantic inserts for the members of a union.

    For example, `sources, 0, jsonl, paths` becomes `sources, 0, paths`.
    """
    location = tuple(part for part in detail["loc"] if not _is_tag(part))
    if len(location) > 2 and location[0] == "sources" and isinstance(location[1], int):
        return (*location[:2], *location[3:])
    return location


def most_specific(error: ValidationError) -> list[ErrorDetails]:
    """Return the errors, without those of union members that the value was not meant for.

    For example, a key accepts a number or a mapping from languages to numbers, and the value of the key is `{fr: x}`.
    Only the error at `fr` is returned, not the error that the mapping is not a number.
    """
    details = error.errors()
    paths = [path_text(location_of(detail)) for detail in details]
    return [
        detail
        for detail, path in zip(details, paths, strict=True)
        if not (
            any(_is_tag(part) for part in detail["loc"])
            and any(other.startswith((f"{path}.", f"{path}[")) for other in paths)
        )
    ]


def _is_tag(part: int | str) -> bool:
    # pydantic inserts the name of a validator or a type between the keys, such as `dict[str,float]` or `[key]`.
    return isinstance(part, str) and _TAG.match(part) is not None


def shown(value: Any) -> str:
    """Return a value as one line of at most 60 characters, for a message. null, true and false are as in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."


def right_value(detail: ErrorDetails, model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return which values the key at `location` of `model` accepts, as the end of a sentence.

    The text contains an example if there is one.

    Args:
        detail: pydantic's description of the error.
        model: the type of the whole document.
        location: path of the value, without the names of union members.
    """
    context = detail.get("ctx", {})
    if detail["type"] in _UNION_TAGS:
        kinds = context.get("expected_tags")
        return f"one of {kinds}" if kinds else _expected_kind(model, location)
    if detail["type"] == _OWN_MESSAGE:
        text = detail["msg"].removeprefix("Value error, ")
        text = f"{text[:1].lower()}{text[1:]}"
        if "such as" in text:  # the message contains an example already
            return text
    else:
        # If the members of a union define the key differently, each definition has its own description.
        found = dict.fromkeys(described(annotation) for annotation in types_at(model, location))
        text = " or ".join(found) or f"another value ({detail['msg']})"
        if detail["type"] == "finite_number":
            text = text.replace("a number", "a finite number", 1)
        if detail["type"] == "missing":  # null would be as wrong as no value
            text = text.removesuffix(", or null")
    if text.startswith(_NEED_NO_EXAMPLE):
        return text
    example = example_of(model, location)
    return text if example is None else f"{text}, for example {example}"


def _expected_kind(model: type[BaseModel], location: Sequence[int | str]) -> str:
    found = [described(field) for field in types_at(model, [*location, "kind"])]
    return f"one of {', '.join(dict.fromkeys(found))}" if found else "a key `kind` that names the kind of this section"


def example_of(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Return an example of a value for the key at `location`, as JSON, which is also valid YAML.

    The example comes from the key's `Field(examples=...)`, otherwise from the default of the key. For a value inside a
    list or mapping, it is the first value in the example of that list or mapping. Return None if there is no example.
    """
    field = next(iter(fields_at(model, location)), None)
    if field is None:
        return _part_of_example(model, location)
    found = _example(field)
    return None if found is None else json.dumps(found, ensure_ascii=False, default=list)


def _example(field: FieldInfo) -> Any:
    if field.examples:
        return field.examples[0]
    default = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or isinstance(default, BaseModel) or default in ([], {}, ()):
        return None
    return default


def _part_of_example(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    if not location:
        return None
    *parents, _ = location
    field = next(iter(fields_at(model, parents)), None)
    value = _example(field) if field is not None else None
    members = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return json.dumps(members[0], ensure_ascii=False, default=list) if members else None
