"""Define train/preflight/<segment>.json: what the preflight of a segment measured on all nodes, and what it found.

The preflight checks the nodes at the start of a segment, before the training.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count, Positive


class Record(BaseModel):
    """Base of the records of a preflight."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuState(Record):
    """A GPU as NVML describes it. A value is None if NVML does not report it."""

    index: Count
    name: str
    memory_bytes: Count | None = None
    uncorrected_errors: Count | None = None
    """Uncorrected memory errors (ECC) since the driver was loaded."""
    remapping_failed: bool | None = None
    """Whether the GPU could not replace a defective row of its memory."""
    clock_mhz: Count | None = None
    """Clock of the streaming multiprocessors under the load of a matrix product."""
    max_clock_mhz: Count | None = None
    throttled_by: tuple[str, ...] = ()
    """Reasons for which the GPU reduced its clock because of a fault, such as its temperature."""


class DiskState(Record):
    """Free space and write speed of a folder."""

    free_bytes: Count
    write_mb_per_second: float


class NodeState(Record):
    """A node, as its first process measured it."""

    gpus: tuple[GpuState, ...] = ()
    """All GPUs of the node. Empty without NVML."""
    temporary: DiskState
    """The folder for temporary files of the node."""
    run: DiskState
    """The folder of the run, as this node sees it."""
    versions: dict[str, str]
    """Versions of the software that must be equal on all nodes."""
    driver: str | None = None
    """Version of the NVIDIA driver."""


class RankState(Record):
    """Measurements that one process made alone."""

    rank: Count
    local_rank: Count
    host: str
    """Name of the node: SLURM's name in a SLURM job, and the host name outside."""
    missing_gpus: str | None = None
    """Message about GPUs that the process was given and cannot find. None if no GPU is missing."""
    without_cuda: bool = False
    """Whether the installed torch cannot use GPUs at all."""
    device: str = "cpu"
    memory_free_bytes: Count | None = None
    """Free memory of the GPU. None on a CPU."""
    memory_bytes: Count | None = None
    """Memory of the GPU. None on a CPU."""
    matmul_seconds: float | None = None
    """Shortest time of a matrix product. None if it was not measured."""
    node: NodeState | None = None
    """State of the node. Only the first process of each node measures it."""
    error: str | None = None
    """Error that ended the checks of this process, or the check that did not end in time. None if all checks ended."""
    seconds: float = 0.0
    """Duration of all checks of this process."""


class PairTime(Record):
    """Time of an all-reduce between the first processes of two nodes."""

    peer: str
    """Name of the other node."""
    seconds: float


class Step(StrEnum):
    """Steps of the communication, in their order."""

    START = "start"
    INSIDE = "inside"
    """All-reduce among the processes of a node."""
    PAIRS = "pairs"
    """All-reduce between two nodes."""
    ALL = "all"
    """All-reduce among all processes."""
    CLOCK = "clock"
    DONE = "done"


class CommunicationState(Record):
    """Measurements that one process made together with other processes."""

    rank: Count
    host: str
    step: Step = Step.START
    """Last step that began; `done` if all steps ended."""
    inside_seconds: float | None = None
    """Shortest time of an all-reduce among the processes of this node. None if the node has only one process."""
    pairs: tuple[PairTime, ...] = ()
    """All-reduces with neighbouring nodes. Only the first process of each node measures them."""
    all_seconds: float | None = None
    """Shortest time of an all-reduce among all processes. None if it was not reached."""
    clock: float | None = None
    """Clock of this process right after a barrier, in seconds of the Unix epoch. None if it was not reached."""
    error: str | None = None
    """Error that ended the communication of this process, or the step that did not end in time."""
    seconds: float = 0.0


class ProblemKind(StrEnum):
    """Kind of problem that a preflight can find."""

    MISSING_GPU = "missing GPU"
    GPU = "GPU"
    """A GPU reports errors of its memory, or its memory is in use."""
    CHECK = "check"
    """A check failed with an error or did not end in time."""
    NO_REPORT = "no report"
    """A process did not report."""
    SLOW = "slow"
    """A node computes, writes or communicates more slowly than the others."""
    TEMPORARY_DISK = "temporary disk"
    """The folder for temporary files of a node is full."""
    RUN_DISK = "run disk"
    """The folder of the run has no space for the next checkpoint. No node is at fault."""
    CLOCK = "clock"
    VERSION = "version"


class Problem(Record):
    """One problem that a preflight found."""

    kind: ProblemKind
    message: str
    expected: str = ""
    """Values or changes that would solve the problem. Empty if the message already states them."""
    host: str | None = None
    """Node at fault. None if no single node is at fault."""
    rank: Count | None = None
    """A rank on that node. None if the problem concerns no rank."""
    ends_segment: bool = True
    """Whether the training cannot start. A problem that does not prevent the training, such as a slow node, ends the
    segment only if the node can be excluded."""
    exclude: bool = True
    """Whether another node may solve the problem, so that the next segments should exclude `host`."""


class Preflight(Record):
    """The preflight of one segment."""

    segment: Positive
    time: str
    """Time when the preflight ended: UTC, ISO 8601."""
    seconds: float
    """Duration of the preflight on rank 0, with the time to wait for other processes."""
    ranks: tuple[RankState, ...]
    communication: tuple[CommunicationState, ...] = ()
    problems: tuple[Problem, ...] = ()
    excluded: tuple[str, ...] = ()
    """Nodes that this preflight excluded from the next segments."""


def preflight_path(folder: Path, segment: int) -> Path:
    """Return the file of a segment's preflight in `folder` (train/preflight)."""
    return folder / f"{segment}.json"


def write_preflight(path: Path, preflight: Preflight) -> None:
    """Write the record of a preflight atomically."""
    write_json(path, preflight.model_dump(mode="json"))


def read_preflight(path: Path) -> Preflight:
    """Read the record of a preflight.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        return Preflight.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the record of a preflight: {wrong_values(error, Preflight)}",
            where=str(path),
            expected="the file as the training wrote it; the next segment writes a new one",
        ) from error
