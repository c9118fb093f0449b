"""Say what would be right in place of a wrong value, in words of ours and with an example.

pydantic finds what is wrong. Its own messages speak of types of Python and of patterns, so they are never shown.
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
"""Start of the kind of pydantic's error -> what an option takes."""
_MAX_CHARACTERS = 60
_MOST_SHOWN = 3
_TAG = re.compile(r"(function-\w+|dict|list|constrained-\w+)\[|\[key\]$")
_OWN_MESSAGE = "value_error"
_NEED_NO_EXAMPLE = ("one of ", "true or false", "a size such as")
_UNION_TAGS = ("union_tag_invalid", "union_tag_not_found")


def wrong_values(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe every wrong value of a file that a stage wrote, in one line of at most `_MOST_SHOWN` values.

    Args:
        error: what pydantic found.
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
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def wrong_option(error: ValidationError) -> str:
    """Describe the wrong value of a command line's option."""
    detail = error.errors()[0]
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == _OWN_MESSAGE:  # Typer's own message lists the choices
        return detail["msg"].removeprefix("Value error, ").rstrip(".")
    if kind in _OPTION_LIMITS:
        name, words = _OPTION_LIMITS[kind]
        right = f"a number {words} {context[name]}"
    else:
        right = next((words for start, words in _OPTION_KINDS.items() if kind.startswith(start)), "another value")
    return f"{shown(detail.get('input'))} is not valid; expected: {right}"


def location_of(detail: ErrorDetails) -> Location:
    """Return the path of the value, without the names that pydantic inserts for the members of a union
    (`sources, 0, jsonl, paths` -> `sources, 0, paths`)."""
    location = tuple(part for part in detail["loc"] if not _is_tag(part))
    if len(location) > 2 and location[0] == "sources" and isinstance(location[1], int):
        return (*location[:2], *location[3:])
    return location


def most_specific(error: ValidationError) -> list[ErrorDetails]:
    """Return the errors without those of union members that a value was never meant for.

    A number in `{fr: x}` that is wrong is an error at `fr`; that the mapping is no plain number is not worth a line.
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
    """Return a value as an error message shows it: on one line, at most 60 characters, with the words of YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."


def right_value(detail: ErrorDetails, model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return what the key at `location` of `model` takes, as the end of a sentence, with an example if there is one.

    Args:
        detail: pydantic's description of the error.
        model: the whole configuration.
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
        # A key that a union holds in several forms has one description for each of them.
        found = dict.fromkeys(described(annotation) for annotation in types_at(model, location))
        text = " or ".join(found) or "a value of another kind"
        if detail["type"] == "finite_number":
            text = text.replace("a number", "a finite number", 1)
    if text.startswith(_NEED_NO_EXAMPLE):
        return text
    example = example_of(model, location)
    return text if example is None else f"{text}, for example {example}"


def _expected_kind(model: type[BaseModel], location: Sequence[int | str]) -> str:
    found = [described(field) for field in types_at(model, [*location, "kind"])]
    return f"one of {', '.join(dict.fromkeys(found))}" if found else "a key that names the kind"


def example_of(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Return an example for the key at `location`, as JSON, which YAML reads too; None if there is no example.

    The example is the key's own (`Field(examples=...)`), otherwise its default, otherwise the corresponding part of the
    example of the list or mapping that contains the value.
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
