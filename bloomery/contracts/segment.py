"""Define segments/<n>.json, which records why a segment of a training ended, and at which position.

The workflow relies on this file, not on the scheduler's state of the job.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.base.self_digest import check_own_digest, write_with_own_digest
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count, Positive
from bloomery.contracts.safe_path import SafeName

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
    """The segment ended by a fault (see `Fault`). The next segment resumes from the last checkpoint unless more than
    `max_crashes` segments crashed since the last new checkpoint."""
    FAILED = "failed"
    """The training ended with an error that a retry cannot fix, such as a loss that is not finite. A user must find the
    cause.

    This status appears only in the files of segments/history.
    """


class Fault(StrEnum):
    """Kind of event that ended a segment although no person asked for it."""

    PROCESS = "process"
    """A process of the training ended with an error or was killed."""
    HANG = "hang"
    """A rank made no progress for too long."""
    PREFLIGHT = "preflight"
    """A node failed the checks before the training."""
    TIME_LIMIT = "time limit"
    """The scheduler ended the job at its time limit."""
    PREEMPTED = "preempted"
    """The scheduler took the nodes for another job, or requeued the job."""
    NODE = "node"
    """A node of the job failed."""
    MEMORY = "memory"
    """The scheduler ended the job because it used too much memory."""
    DISK = "disk"
    """The disk of the run was full, or its quota was used up."""
    CANCELLED = "cancelled"
    """Somebody who does not own the run, such as an administrator, cancelled the job."""
    SIGNAL = "signal"
    """The job received a signal, and the scheduler does not state why."""
    LOST = "lost"
    """The job ended without a record, and its state is not known any more."""


class FirstFailure(BaseModel):
    """The rank of a segment that failed first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Count
    host: str
    ending: str
    """How the rank ended, such as `was ended by signal SIGKILL` or `made no progress for 95 s`."""


class Segment(BaseModel):
    """One segment of a training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: Positive
    status: SegmentStatus
    first_iteration: Count
    """First iteration that this segment ran; 0 if it ran none."""
    iteration: Count
    """Last completed iteration."""
    total_iterations: Count
    consumed_samples: Count
    consumed_tokens: Count
    checkpoint: SafeName | None
    """Name of the newest valid checkpoint's folder below train/checkpoints, such as `step00000100`."""
    identity: str
    """Digest of everything that the checkpoints depend on (model, data, schedule, seed)."""
    new_checkpoint: bool = False
    """Whether this segment saved a newer checkpoint than the one that it started from. A segment can crash after it
    saved such a checkpoint."""
    crashes: Count = 0
    """Number of crashes since the last new checkpoint, including the crash of this segment. A segment that saved a new
    checkpoint and then crashed counts as the first crash."""
    message: str = ""
    end_save_seconds: float | None = None
    """Seconds that the training waited for saves after the record of its last iteration. None if it did not wait, or in
    records of earlier versions."""
    job: str | None = None
    """Id of the SLURM job that ran the segment. None outside SLURM, and in records of earlier versions."""
    nodes: tuple[str, ...] = ()
    """Host names of the nodes on which the segment ran, in the order of their ranks."""
    started: str | None = None
    """Time when the launcher of the segment began: UTC, ISO 8601. None in records of earlier versions."""
    ended: str | None = None
    """Time when the segment was recorded as ended: UTC, ISO 8601. None in records of earlier versions."""
    fault: Fault | None = None
    """Kind of event that ended a crashed segment. None for other segments."""
    first_failure: FirstFailure | None = None
    """The rank that failed first. None if no rank failed, or if it is not known."""


_RESTORE = "restore the file, or delete it and run the workflow again"


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment's file atomically."""
    write_with_own_digest(path, segment.model_dump(mode="json"))


def read_segment(path: Path) -> Segment:
    """Read a segment's file.

    Raises:
        InputError: the file is damaged, or was changed after it was written.
    """
    value = read_json(path)
    try:
        return Segment.model_validate(check_own_digest(value, path, restore=_RESTORE))
    except ValidationError as error:
        raise InputError(
            f"not the record of a training segment: {wrong_values(error, Segment)}",
            where=str(path),
            expected=f"a file as the training wrote it; {_RESTORE}",
        ) from error
