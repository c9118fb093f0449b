"""Define segments/<n>.json, which records why a segment of a training ended, and at which position.

The workflow relies on this file, not on the scheduler's state of the job.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values

STOP_FILE = "stop"
"""File in train/control that makes the training save after the current iteration and end."""
SAVE_FILE = "save"
"""File in train/control that makes the training save after the current iteration and continue."""


def clear_request(path: Path) -> None:
    """Remove a stop or save file after its request was carried out.

    Raises:
        InputError: a folder has the file's name.
    """
    if path.is_dir():
        raise InputError(
            "this path is a folder, but should be a file; the training has saved or stopped as requested",
            where=str(path),
            expected="a file, which the training removes after a request; remove the folder and run the workflow again",
        )
    path.unlink(missing_ok=True)


class SegmentStatus(StrEnum):
    """Reason why a segment ended."""

    FINISHED = "finished"
    """The training is complete."""
    TIME_LIMIT = "time_limit"
    """The segment's time or iteration limit was reached. The next segment resumes the training."""
    ROLLED_BACK = "rolled_back"
    """A guard returned to an earlier checkpoint. The next segment resumes from it and skips the event's samples."""
    STOPPED = "stopped"
    """A user stopped the segment (signal or stop file)."""
    CRASHED = "crashed"
    """The segment crashed. The next segment resumes from the last checkpoint unless more than `max_crashes` segments
    crashed in a row."""
    FAILED = "failed"
    """The training ended with an error that a retry cannot fix, such as a loss that is not finite. A user must find the
    cause.

    This status appears only in the files of segments/history.
    """


class Segment(BaseModel):
    """One segment of a training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    status: SegmentStatus
    first_iteration: int
    """First iteration that this segment ran; 0 if it ran none."""
    iteration: int
    """Last completed iteration."""
    total_iterations: int
    consumed_samples: int
    consumed_tokens: int
    checkpoint: str | None
    """Name of the newest valid checkpoint's folder below train/checkpoints, such as `step00000100`."""
    identity: str
    """Digest of everything that the checkpoints depend on (model, data, schedule, seed)."""
    crashes: int = 0
    """Number of consecutive crashes up to and including this segment."""
    message: str = ""


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment's file atomically."""
    write_json(path, segment.model_dump(mode="json"))


def read_segment(path: Path) -> Segment:
    """Read a segment's file.

    Raises:
        InputError: the file is damaged.
    """
    try:
        return Segment.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the record of a training segment: {wrong_values(error, Segment)}",
            where=str(path),
            expected="a file as the training wrote it; restore the file, or delete it and run the workflow again",
        ) from error
