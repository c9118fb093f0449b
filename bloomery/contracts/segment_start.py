"""Define segments/started/<n>.json, which records where and when the launcher of a segment began, and its error.

A launcher that is killed cannot add its error to this record. So other programs can distinguish a killed launcher from
a launcher that refused to train.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.section import Count, Positive
from bloomery.contracts.paths import RunPaths


class SegmentStart(BaseModel):
    """The newest start of a segment's launcher."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: Positive
    job: str | None
    """Id of the SLURM job. None outside SLURM."""
    restarts: Count = 0
    """Number of times that SLURM had requeued the job when the launcher began."""
    host: str
    pid: Positive
    nodes: tuple[str, ...] = ()
    """Host names of the nodes, in the order of their ranks. Empty if the launcher did not begin."""
    started: str
    """Time when the launcher began: UTC, ISO 8601."""
    iteration: Count | None = None
    """Iteration of the checkpoint from which the segment resumes; 0 without a checkpoint. None if the launcher ended
    before it searched for the checkpoint."""
    error: str | None = None
    """Error with which the launcher ended without training. None if the launcher did not end in this way."""
    exit_code: int | None = None
    """Exit code of `error`. None without an error."""


def write_start(paths: RunPaths, start: SegmentStart) -> None:
    """Write the record of a start atomically."""
    paths.started.mkdir(parents=True, exist_ok=True)
    write_json(paths.started / f"{start.number}.json", start.model_dump(mode="json"))


def read_start(paths: RunPaths, number: int) -> SegmentStart | None:
    """Return the newest start of segment `number`. Return None if the record is missing or damaged.

    A damaged record must not stop a training, because the record only explains how a launcher ended.
    """
    path: Path = paths.started / f"{number}.json"
    try:
        return SegmentStart.model_validate(read_json(path))
    except (InputError, ValidationError):
        return None
