"""The dotted paths of a configuration's keys."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a value of this type may contain."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the dotted path of every key below `model`."""
    paths = []
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        paths.append(path)
        for inner in models_in(field.annotation):
            paths += all_keys(inner, f"{path}.")
    return list(dict.fromkeys(paths))
