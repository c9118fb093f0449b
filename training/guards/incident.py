"""train/incidents/step<n>.json: what a guard saw and did at an iteration; beside it, the texts of its samples.

An iteration that comes again after a roll-back has other samples: what is seen then has a file of its own, `step<n>-2`.
The training writes the first, the launcher the second (`bloomery trace --json`): processes that train read no text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import dump_json, read_json, write_text
from bloomery.base.errors import InputError

_NAME = re.compile(r"step(\d+)(?:-(\d+))?\.json")


class Incident(BaseModel):
    """One event of a guard."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    event: Literal["spike", "non_finite", "drift"]
    action: Literal["log", "skip", "roll_back", "stop"]
    values: dict[str, float | None] = {}
    """What was measured, such as `grad_norm` and `usual_grad_norm`; None: not finite."""
    from_sample: int | None = None
    """First sample of the iteration; None: the event is about no samples."""
    to_sample: int | None = None
    """First sample behind the iteration."""
    message: str


def incident_name(iteration: int, time: int = 1) -> str:
    """File of an iteration's incident: `step00000100.json`, of a second one `step00000100-2.json`."""
    return f"step{iteration:08d}{'' if time == 1 else f'-{time}'}.json"


def write_incident(folder: Path, incident: Incident) -> Path:
    """Write an incident's file atomically, beside earlier ones of the iteration; returns its path.

    The same incident again, as of a training that was killed and went on from before it, is not written twice.
    """
    time, text = 1, dump_json(incident.model_dump(mode="json"))
    while (path := folder / incident_name(incident.iteration, time)).exists():
        if path.read_text(encoding="utf-8") == text:
            return path
        time += 1
    write_text(path, text)
    return path


def read_incident(path: Path) -> Incident:
    """Read an incident's file. Raises InputError."""
    try:
        return Incident.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"not an incident: {error}", where=str(path)) from error


def texts_path(incident: Path) -> Path:
    """Where the documents behind an incident's samples are, as `bloomery trace --json` prints them."""
    return incident.with_name(f"{incident.stem}.texts.json")


def incident_files(folder: Path) -> list[Path]:
    """Files of incidents, by iteration, and in the order in which they were written."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.glob("step*.json"))
    numbered = [(int(name[1]), int(name[2] or 1), path) for name, path in found if name is not None]
    return [path for _, _, path in sorted(numbered)]
