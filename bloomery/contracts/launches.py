"""Define train/launches.jsonl, which has one line for each start of a segment's launcher.

A launcher that is killed writes no record of its segment. This file still states when the launcher began.
"""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import explained
from bloomery.base.json_text import parse_json
from bloomery.base.unfinished_line import cut_unfinished_line
from bloomery.base.unreadable import why_unreadable
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Positive
from bloomery.contracts.damaged_lines import report_damaged_lines
from bloomery.contracts.metrics_record import Time
from bloomery.contracts.paths import RunPaths


class Launch(BaseModel):
    """One start of a segment's launcher."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    segment: Positive
    """Number of the segment."""
    started: Time
    """Time when the launcher began: UTC, ISO 8601."""
    submitted: Time | None = None
    """Time when the launcher's SLURM job was submitted: UTC, ISO 8601. None outside SLURM or if it is not known."""
    job: str | None = None
    """Id of the launcher's SLURM job. None outside SLURM."""


def append_launch(paths: RunPaths, launch: Launch) -> None:
    """Append a line, and wait until it is on disk.

    Raises:
        ResourceError: the file cannot be written.
    """
    with explained(paths.launches):
        paths.train.mkdir(parents=True, exist_ok=True)
        if paths.launches.exists():
            cut_unfinished_line(paths.launches)
        with paths.launches.open("a", encoding="utf-8") as handle:
            handle.write(launch.model_dump_json(exclude_none=True) + "\n")
            handle.flush()
            os.fsync(handle.fileno())


def read_launches(paths: RunPaths) -> list[Launch]:
    """Return the launches in order; an empty list if the file does not exist.

    An unfinished last line is not read. Damaged lines are skipped, and their number is reported on stderr.
    """
    try:
        lines = paths.launches.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    found, damaged, first = [], 0, ""
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Launch.model_validate(parse_json(line)))
        except ValueError as error:
            why = wrong_values(error, Launch) if isinstance(error, ValidationError) else why_unreadable(error)
            first = first or f"the first is line {number}: {why}"
            damaged += 1
    report_damaged_lines(paths.launches, damaged, first)
    return found
