"""segments/<n>.json: why a piece of training ended and where it stands. The workflow believes it, not the scheduler."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError

STOP_FILE = "stop"
"""File in train/control: save after the current iteration and end."""
SAVE_FILE = "save"
"""File in train/control: save after the current iteration and go on."""


def clear_request(path: Path) -> None:
    """Remove a stop or save file that was heeded. Raises InputError where a folder has its name."""
    if path.is_dir():
        raise InputError(
            "is a folder: it was heeded, and cannot be cleared",
            where=str(path),
            expected="a file, as `touch` makes it; remove the folder and run the same command again",
        )
    path.unlink(missing_ok=True)


class SegmentStatus(StrEnum):
    """Why a segment ended."""

    FINISHED = "finished"
    """All samples are trained."""
    TIME_LIMIT = "time_limit"
    """Its time is up; the next segment goes on."""
    ROLLED_BACK = "rolled_back"
    """A guard went back to an earlier checkpoint; the next segment goes on from there and skips what was behind it."""
    STOPPED = "stopped"
    """A person asked it to stop (signal or stop file)."""
    CRASHED = "crashed"
    """It died; the next segment goes on from the last checkpoint, within the crash budget."""
    FAILED = "failed"
    """A check of the training failed, such as a loss that is not finite: a person must look. Only in the history."""


class Segment(BaseModel):
    """One segment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    status: SegmentStatus
    first_iteration: int
    """First iteration that this segment ran (0: none)."""
    iteration: int
    """Last iteration done."""
    total_iterations: int
    consumed_samples: int
    consumed_tokens: int
    checkpoint: str | None
    """Folder of the newest good checkpoint below train/checkpoints, e.g. `step00000100`."""
    identity: str
    """Digest of what the checkpoints were trained from (model, data, schedule, seed)."""
    crashes: int = 0
    """Crashes in a row up to and including this segment."""
    message: str = ""


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment's file atomically."""
    write_json(path, segment.model_dump(mode="json"))


def read_segment(path: Path) -> Segment:
    """Read a segment's file. Raises InputError."""
    try:
        return Segment.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"not a segment: {error}", where=str(path)) from error
