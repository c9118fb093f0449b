"""Say what would be right in place of a wrong value, in words of ours and with an example.

pydantic finds what is wrong; its own messages speak of types of Python and of patterns, so they are never shown.
"""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from bloomery.config.keys import models_in

_KEYS_SHOWN = 4
PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "a name of letters, digits, '.', '_' and '-' that starts with a letter or a digit",
    "^(parameters|uniform|type:.+)$": "'parameters', 'uniform', or 'type:' with a regular expression for layers' names",
}
"""Pattern of a key -> what it allows, in words. A test holds it complete."""
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text (in quotes if it looks like a number)",
    "string_unicode": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping from names to values",
    "invalid_key": "keys that are words",
    "none_required": "null",
}
"""Kind of pydantic's error -> what the key takes."""


def right_value(detail: ErrorDetails, model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return what the key at `location` of `model` takes, as the end of a sentence, with an example if there is one.

    Args:
        detail: pydantic's description of the error.
        model: the whole configuration.
        location: path of the value, without the names of union members.
    """
    text = _kind(detail, model, location)
    example = example_of(model, location)
    return text if example is None else f"{text}, for example {example}"


def _kind(detail: ErrorDetails, model: type[BaseModel], location: Sequence[int | str]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        # A validator of ours: its message already says what is right.
        return detail["msg"].removeprefix("Value error, ")
    if kind in ("literal_error", "enum"):
        return f"one of {context['expected']}".replace(" or ", ", ")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        key = str(context["discriminator"]).strip("'")
        tags = f", one of {context['expected_tags']}" if "expected_tags" in context else ""
        return f"a key `{key}` that names the kind{tags}"
    if kind in ("model_type", "model_attributes_type", "dataclass_type"):
        return f"a mapping with keys such as {_keys(model, location)}"
    limits = {
        "greater_than": ("gt", "above"),
        "greater_than_equal": ("ge", "of at least"),
        "less_than": ("lt", "below"),
        "less_than_equal": ("le", "of at most"),
    }
    if kind in limits:
        name, word = limits[kind]
        return f"a number {word} {context[name]:g}"
    if kind == "string_pattern_mismatch":
        return PATTERNS[context["pattern"]]
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    if kind == "string_too_short":
        return f"at least {context['min_length']} characters"
    if kind == "too_short":
        return (
            f"a list of at least {context['min_length']} entries"
            if context["min_length"] > 1
            else "a list with an entry"
        )
    if kind == "too_long":
        return f"a list of at most {context['max_length']} entries"
    return _KINDS.get(kind, "a value of another kind")


def _keys(model: type[BaseModel], location: Sequence[int | str]) -> str:
    found = _fields_at(model, location)
    sections = [section for field in found for section in models_in(field)]
    names = list(dict.fromkeys(name for section in sections for name in section.model_fields))
    return ", ".join(names[:_KEYS_SHOWN]) or "name: value"


def example_of(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Return an example for the key at `location`, as JSON, which YAML reads too; None if the key has none.

    The example is the key's own (`Field(examples=...)`), else its default.
    """
    if not location or isinstance(location[-1], int):
        return None
    field = _field(model, location)
    if field is None:
        return None
    if field.examples:
        return _text(field.examples[0])
    default = field.get_default(call_default_factory=True, validated_data={}) if not field.is_required() else None
    if default is None or default is PydanticUndefined or isinstance(default, BaseModel) or default in ([], {}, ()):
        return None
    return _text(default)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=list)


def _field(model: type[BaseModel], location: Sequence[int | str]) -> FieldInfo | None:
    """Return the field that the last name of `location` names; the first one that fits in a union."""
    *parents, last = location
    sections = [model] if not parents else [s for field in _fields_at(model, parents) for s in models_in(field)]
    return next((section.model_fields[str(last)] for section in sections if last in section.model_fields), None)


def _fields_at(model: type[BaseModel], location: Sequence[int | str]) -> list[Any]:
    """Return the types that a value at `location` may have."""
    found: list[Any] = [model]
    for part in location:
        following: list[Any] = []
        for annotation in found:
            if isinstance(part, str):
                following += [s.model_fields[part].annotation for s in models_in(annotation) if part in s.model_fields]
            following += _members(annotation, part)
        found = following
    return found


def _members(annotation: Any, part: int | str) -> list[Any]:
    """Return the types of the members of a list or mapping that `annotation` allows."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return [member for argument in arguments for member in _members(argument, part)]
    if isinstance(part, int) and origin in (list, tuple):
        return [arguments[0]]
    if isinstance(part, str) and origin is dict:
        return [arguments[1]]
    if origin is not None and hasattr(annotation, "__metadata__"):
        return _members(arguments[0], part)
    return []
