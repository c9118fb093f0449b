"""Settings for simulated faults, and a function that changes keys of a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FAULTS = {"days_between_failures": 0.5, "restart_minutes": 10, "queue_hours": 1.0}


def changed(path: Path, **changes: Any) -> Path:
    """Change keys of a YAML file in place. The argument `a__b=value` sets the key `a.b`."""
    raw = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        place, keys = raw, key.split("__")
        for part in keys[:-1]:
            place = place.setdefault(part, {})
        place[keys[-1]] = value
    path.write_text(yaml.safe_dump(raw))
    return path
