"""Render the site's file: every key, below a comment that describes it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from bloomery.base.atomic import write_text
from bloomery.config.load import validate
from bloomery.config.site import JobTarget, Site, TrainingTarget, read_site

_WIDTH = 110
_SECTIONS: dict[str, type[BaseModel]] = {"jobs": JobTarget, "training": TrainingTarget, "internet": JobTarget}


def scalar(value: Any) -> str:
    """Return a value as one line of YAML, quoted where YAML would otherwise read another type."""
    if isinstance(value, list):
        return f"[{', '.join(scalar(item) for item in value)}]"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def comment(text: str, indent: str = "") -> list[str]:
    """Wrap a text into comment lines."""
    prefix = f"{indent}# "
    words = " ".join(text.split())
    return textwrap.wrap(words, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def render(values: Mapping[str, Any], notes: list[str]) -> str:
    """Return the text of the site's file.

    Args:
        values: values that differ from the defaults, nested as in the file.
        notes: comments for the top of the file.
    """
    lines = [line for note in notes for line in comment(note)]
    for name, field in Site.model_fields.items():
        lines += ["", *comment(field.description or "")]
        section = _SECTIONS.get(name)
        if section is None or (name == "internet" and name not in values):
            lines.append(f"{name}: {scalar(values.get(name, _default(Site, name)))}")
            continue
        lines.append(f"{name}:")
        for key, inner in section.model_fields.items():
            lines += comment(inner.description or "", "  ")
            lines.append(f"  {key}: {scalar(values.get(name, {}).get(key, _default(section, key)))}")
    return "\n".join(lines) + "\n"


def _default(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].get_default(call_default_factory=True)


def write_site(path: Path, values: Mapping[str, Any], notes: list[str]) -> Site:
    """Check the values, write the site's file, and read it back.

    Raises:
        ConfigError: a value is wrong; nothing was written.
        ResourceError: the file cannot be written.
    """
    validate(
        dict(values),
        Site,
        where="the site's file",
        example="the keys of a site's file, which `bloomery cluster init` writes",
    )
    write_text(path, render(values, notes))
    return read_site(path)
