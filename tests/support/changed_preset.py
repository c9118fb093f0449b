"""Read a shipped preset and change some of its keys."""

from __future__ import annotations

from typing import Any

import yaml
from repository import ROOT


def changed(preset: str, changes: dict[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / f"config/models/{preset}.yaml").read_text())
    for path, value in changes.items():
        *parents, last = path.split(".")
        section = raw
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return raw
