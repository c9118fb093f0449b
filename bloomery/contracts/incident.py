"""train/incidents/step<n>.json: what a guard saw and did at an iteration; beside it, the texts of its samples.

The training writes the first, the launcher the second (`bloomery trace --json`): processes that train read no text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError


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


def incident_name(iteration: int) -> str:
    """File of an incident: `step00000100.json`."""
    return f"step{iteration:08d}.json"


def write_incident(folder: Path, incident: Incident) -> Path:
    """Write an incident's file atomically; returns its path.

    The texts of an iteration that comes again after a roll-back are others: those of before are removed.
    """
    path = folder / incident_name(incident.iteration)
    texts_path(path).unlink(missing_ok=True)
    write_json(path, incident.model_dump(mode="json"))
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
    """Files of incidents, by iteration."""
    return sorted(path for path in folder.glob("step*.json") if not path.name.endswith(".texts.json"))
