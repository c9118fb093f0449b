"""Define train/control/next-job.json: the options of sbatch with which launchers submit the job of the next segment.

The newest workflow writes the file. So changes of the site's file also apply to a chain of segments that already runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths


def _path(paths: RunPaths) -> Path:
    return paths.control / "next-job.json"


def write_options(paths: RunPaths, options: Sequence[str]) -> None:
    """Write the options atomically."""
    paths.control.mkdir(parents=True, exist_ok=True)
    write_json(_path(paths), {"options": list(options)})


def read_options(paths: RunPaths) -> tuple[str, ...] | None:
    """Return the options. Return None if the file is missing or damaged; a launcher then uses its own options."""
    try:
        found = read_json(_path(paths))["options"]
    except (InputError, KeyError, TypeError):
        return None
    return tuple(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else None
