"""Divide the time since a training began into its uses, such as iterations, saves and the queue. Pure functions.

Times are whole seconds in the records, but durations are not. So the recorded durations of an attempt may exceed the
time between its start and its end by up to two seconds. They are then reduced in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bloomery.contracts.segment import FirstFailure


class TimeUse(StrEnum):
    """Use of a part of a training's time."""

    TRAINING = "training"
    """Iterations that the current weights depend on."""
    REDONE = "redone iterations"
    """Iterations that were lost, because the training resumed from an earlier iteration."""
    SAVES = "saves"
    """Waiting for checkpoints."""
    VALIDATION = "validation"
    START = "start"
    """Time from the start of a segment's launcher to its first iteration or validation."""
    STEPS = "between iterations"
    """Work of a segment between its recorded iterations, saves and validations."""
    END = "end"
    """Time from the last record of a segment to its end, without saves."""
    FAULT = "faults"
    """Time from the last record of a segment to its end by a fault. A hang is part of this time."""
    CURRENT = "current iteration"
    """Time from the last record of the running segment until now."""
    QUEUE = "queue"
    """Time in which a job of the training waited in the queue and nothing ran."""
    STOPPED = "stopped by request"
    """Time after a person stopped the training, in which nothing ran or waited in the queue."""
    IDLE = "idle"
    """Other time in which nothing ran or waited in the queue."""
    UNKNOWN = "not recorded"
    """Time between segments of earlier versions, which did not record when a segment started and ended."""


@dataclass(frozen=True)
class Attempt:
    """One attempt to run a segment. Times are seconds of the Unix epoch, durations are seconds."""

    segment: int
    """Number of the segment."""
    submitted: float | None
    """Time when the SLURM job of the attempt was submitted; None outside SLURM or if it is not known."""
    started: float | None
    """Time when the launcher began; None if it is not known."""
    ended: float | None
    """Time when the attempt was recorded as ended. None if the launcher was killed, or if the attempt still runs."""
    begun: float | None
    """Time when the first recorded iteration or validation began; None without such a record."""
    last: float | None
    """Time of the last record; None without a record."""
    training: float = 0.0
    """Duration of all iterations, including those that were lost."""
    lost: float = 0.0
    """Duration of the iterations that were lost."""
    saves: float = 0.0
    validation: float = 0.0
    end_saves: float = 0.0
    """Time that the training waited for saves after its last iteration."""
    first_iteration: int = 0
    """First iteration of the attempt; 0 if it recorded none."""
    last_iteration: int = 0
    """Last iteration of the attempt; 0 if it recorded none."""
    status: str | None = None
    """Why the attempt ended (`SegmentStatus`); None if no end is recorded."""
    fault: str | None = None
    """The fault that ended the attempt (`Fault`); None if it is not known, or if no fault ended the attempt."""
    message: str = ""
    job: str | None = None
    """SLURM job of the attempt."""
    nodes: tuple[str, ...] = ()
    first_failure: FirstFailure | None = None
    running: bool = False
    """Whether the attempt still runs."""

    @property
    def iterations(self) -> int:
        """Number of iterations that the attempt ran, including those that were lost."""
        return self.last_iteration - self.first_iteration + 1 if self.last_iteration else 0

    @property
    def beginning(self) -> float | None:
        """Earliest known time of the attempt; None if no time is known."""
        return self.started if self.started is not None else self.begun

    @property
    def stop_was_requested(self) -> bool:
        """Whether a person stopped the attempt."""
        return self.status == "stopped"

    @property
    def failed(self) -> bool:
        """Whether the attempt ended by a fault or an error, or without a record."""
        return not self.running and self.status in (None, "crashed", "failed")


@dataclass(frozen=True)
class Goodput:
    """Use of the time since the first attempt began."""

    since: float
    """Time when the first attempt began, in seconds of the Unix epoch."""
    until: float
    """Time when the training finished, or the current time."""
    seconds: dict[TimeUse, float] = field(default_factory=dict)
    """Seconds of each use. They add up to `total`."""

    @property
    def total(self) -> float:
        """All seconds from `since` to `until`."""
        return self.until - self.since

    @property
    def share(self) -> float:
        """Share of the time in which the training made the progress that it has now, from 0 to 1."""
        return self.seconds[TimeUse.TRAINING] / self.total if self.total else 0.0


def goodput(
    attempts: Sequence[Attempt], now: float, *, finished: bool = False, queued_since: float | None = None
) -> Goodput | None:
    """Return the use of the time from the first attempt until now, or until the end of a finished training.

    Return None if no attempt has a known time.

    Args:
        attempts: all attempts, in order.
        now: the current time, in seconds of the Unix epoch.
        finished: whether the training has finished.
        queued_since: time when the job that waits in the queue was submitted; None if no job waits.
    """
    known = [attempt for attempt in attempts if attempt.beginning is not None]
    if not known:
        return None
    since = at = known[0].beginning or 0.0
    used = dict.fromkeys(TimeUse, 0.0)
    before: Attempt | None = None
    for attempt in known:
        start = max(at, attempt.beginning or at)
        if before is not None:
            _add_gap(used, at, start, before, attempt.submitted, is_recorded=attempt.started is not None)
        end = max(start, now) if attempt.running else max(start, _end_of(attempt))
        for use, seconds in _uses(attempt, start, end).items():
            used[use] += seconds
        before, at = attempt, end
    assert before is not None
    until = at if finished or before.running else max(at, now)
    _add_gap(used, at, until, before, queued_since, is_recorded=True)
    return Goodput(since=since, until=until, seconds=used)


def _end_of(attempt: Attempt) -> float:
    """Return the time when an attempt ended, or the last time when it is known to have run."""
    times = (attempt.ended, attempt.last, attempt.begun, attempt.started)
    return max(time for time in times if time is not None)


def _add_gap(
    used: dict[TimeUse, float],
    begin: float,
    end: float,
    before: Attempt,
    submitted: float | None,
    *,
    is_recorded: bool,
) -> None:
    """Add the time between two attempts: idle until the job of the next attempt was submitted, then in the queue.

    `is_recorded` states whether the end of the gap is known.
    """
    queued = begin if submitted is None else min(max(submitted, begin), end)
    if submitted is not None:
        used[TimeUse.QUEUE] += end - queued
        end = queued
    if not is_recorded:
        used[TimeUse.UNKNOWN] += end - begin
    else:
        used[TimeUse.STOPPED if before.stop_was_requested else TimeUse.IDLE] += end - begin


def _uses(attempt: Attempt, start: float, end: float) -> dict[TimeUse, float]:
    """Divide the time of one attempt from `start` to `end`."""
    last_use = TimeUse.CURRENT if attempt.running else TimeUse.FAULT if attempt.failed else TimeUse.END
    if attempt.begun is None or attempt.last is None:
        # Nothing was recorded between the start of the launcher and the end.
        return {TimeUse.START if not attempt.failed else TimeUse.FAULT: end - start}
    begun = min(max(attempt.begun, start), end)
    last = min(max(attempt.last, begun), end)
    inside = {
        TimeUse.TRAINING: attempt.training - attempt.lost,
        TimeUse.REDONE: attempt.lost,
        TimeUse.SAVES: attempt.saves,
        TimeUse.VALIDATION: attempt.validation,
    }
    measured, available = sum(inside.values()), last - begun
    if measured > available:
        inside = {use: seconds * available / measured for use, seconds in inside.items()}
    uses = {**inside, TimeUse.STEPS: max(0.0, available - measured), TimeUse.START: begun - start}
    end_saves = min(attempt.end_saves, end - last)
    uses[TimeUse.SAVES] += end_saves
    uses[last_use] = end - last - end_saves
    return uses
