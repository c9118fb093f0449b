"""Read and write incident files. train/incidents/step<n>.json records what a guard detected and did at an iteration.

After a roll-back, an iteration is repeated with different samples. Its second incident gets its own file, `step<n>-2`.
Beside an incident, `step<n>.texts.json` contains the documents of the iteration's samples. The training writes the
incident, and the launcher writes the texts (`bloomery trace --json`), because training processes read no text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import dump_json, read_json, write_text
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values

_NAME = re.compile(r"step(\d+)(?:-(\d+))?\.json")


class Incident(BaseModel):
    """An event that a guard detected."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    iteration: int
    event: Literal["spike", "divergence", "non_finite", "drift", "replay"]
    action: Literal["log", "skip", "roll_back", "restart", "stop"]
    """`restart`: the segment ends, and the next one resumes from the newest good checkpoint."""
    values: dict[str, float | None] = {}
    """Measured values by name, such as `grad_norm` and `usual`. A value that is not finite is None."""
    from_sample: int | None = None
    """First sample of the iteration. None if the event does not concern samples."""
    to_sample: int | None = None
    """First sample after the iteration. None if the event does not concern samples."""
    message: str
    segment: int | None = None
    """Segment in which a drift occurred, so that a drift in another segment gets a file of its own. None for other
    events: a resumed training can repeat them, and a repeated incident is written only once."""
    nodes: dict[str, str] = {}
    """Node of each rank that may hold a wrong copy after a drift, by rank."""


def incident_name(iteration: int, time: int = 1) -> str:
    """Return the file name of the first (`time` = 1) or a later incident of an iteration.

    The names of iteration 100 are `step00000100.json`, `step00000100-2.json`, ...
    """
    return f"step{iteration:08d}{'' if time == 1 else f'-{time}'}.json"


def write_incident(folder: Path, incident: Incident) -> Path:
    """Write an incident's file atomically and return its path. Files of earlier incidents are kept.

    An incident with the same content is not written twice. The same incident can occur again when a killed training
    resumes from an earlier iteration.
    """
    time, text = 1, dump_json(incident.model_dump(mode="json"))
    while (path := folder / incident_name(incident.iteration, time)).exists():
        if path.read_text(encoding="utf-8") == text:
            return path
        time += 1
    write_text(path, text)
    return path


def read_incident(path: Path) -> Incident:
    """Read an incident's file. Raises InputError if the file is missing or damaged."""
    try:
        return Incident.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"this is not a valid incident file: {wrong_values(error, Incident)}",
            where=str(path),
            expected="a file that a guard of this version of Bloomery wrote; restore or delete this file (the training "
            "continues without it)",
        ) from error


def texts_path(incident: Path) -> Path:
    """Return the path of the file with the documents of an incident's samples (output of `bloomery trace --json`)."""
    return incident.with_name(f"{incident.stem}.texts.json")


def incident_files(folder: Path) -> list[Path]:
    """Return the incident files, ordered by iteration and then by the order in which they were written."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.glob("step*.json"))
    numbered = [(int(name[1]), int(name[2] or 1), path) for name, path in found if name is not None]
    return [path for _, _, path in sorted(numbered)]
