"""Simulate one replicate event by event: a job waits, starts and trains until it ends, and the next job follows.

A failure can occur while a job runs or starts, a maintenance at any time, and a planned restart only while a job
trains. A failure or a maintenance discards the work since the newest complete save. A maintenance interrupts the wait
in the queue, which then continues.

A job ends by itself if its time is up or a planned restart is requested. It first completes its iteration, including a
validation that is due, and saves a checkpoint. If the job fails before that, the restart after the failure replaces the
planned one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from bloomery.base.errors import CheckFailedError
from planner.simulation.timeline import Timeline, TimeUse
from planner.simulation.waiting_times import WaitingTimes

LOSSES = ("rework", "restart", "queue", "maintenance", "saving", "validation")
"""Causes of hours without training progress: repeated work, job starts, queues, maintenances, saves, validations."""
_MOST_JOBS = 100_000
"""Largest number of jobs of a training. A training with more jobs is refused, because it may never finish and its
simulation may never end."""


class JobSpan(NamedTuple):
    """Period in which one job trains."""

    start: float
    """Start of the period, in seconds since the beginning of the simulation."""
    seconds: float
    base: int
    """Iteration of the checkpoint that the job loads."""
    last: int
    """Iteration after which the job ends by itself if nothing interrupts it."""


@dataclass(frozen=True)
class Replicate:
    """Result of one simulated training."""

    finish_days: float | None
    """Days until the training finished; None if it did not finish before the simulation stopped."""
    wall_days: float
    """Number of simulated days."""
    iteration: int
    """Number of iterations completed at the end.

    If no job trains at the end, this is the iteration of the newest checkpoint.
    """
    useful_hours: float
    """Hours of iterations that were not discarded."""
    lost_hours: dict[str, float]
    """Hours lost by each cause in `LOSSES`. Their sum and the useful hours add up to the wall-clock hours."""
    failures: int
    maintenances: int
    stops: int
    """Number of planned restarts."""
    jobs: int
    """Number of jobs that left the queue."""
    checkpoints_kept: int
    checkpoints_at_most: int
    """Largest number of checkpoints on disk at once. A checkpoint is removed only after a new one is complete."""


def simulate_replicate(
    work: Timeline, draws: WaitingTimes, *, horizon_seconds: float = math.inf, spans: list[JobSpan] | None = None
) -> Replicate:
    """Simulate a training until it finishes or until `horizon_seconds`, whichever is earlier.

    If `spans` is a list, the training period of each job is appended to it.

    Raises:
        CheckFailedError: the training makes no progress.
    """
    return _Replication(work, draws, horizon_seconds, spans).run()


class _Replication:
    def __init__(self, work: Timeline, draws: WaitingTimes, horizon: float, spans: list[JobSpan] | None) -> None:
        self.work, self.draws, self.horizon, self.spans = work, draws, horizon, spans
        self.now = 0.0
        self.base = self.done = self.reached = 0
        """Iterations that the simulated training has reached. `base` is the iteration of the newest checkpoint.

        `done` counts the iterations that are complete with the validation and save due after them. `reached` also
        counts an iteration whose validation or save is not complete.
        """
        self.extra: list[int] = []
        self.begun = TimeUse(0.0, 0.0, 0.0)
        self.lost = dict.fromkeys(LOSSES[:4], 0.0)
        self.failures = self.maintenances = self.stops = self.jobs = 0
        self.over = False
        self.failure_left = draws.failure()
        self.stop_left = draws.stop()
        self.maintenance_at = draws.maintenance()

    def run(self) -> Replicate:
        while not self.over:
            if self._wait() and self._start():
                self._train()
        work, share = self.work, self.work.share(self.done)
        useful = share.useful + self.begun.useful
        saving = share.saving + self.begun.saving + len(self.extra) * work.scenario.save_seconds
        losses = {**self.lost, "saving": saving, "validation": share.validation + self.begun.validation}
        newest = max(self.base, work.last_save_due(self.done))
        kept, at_most = work.kept(newest, self.extra)
        finished = self.base == work.iterations
        return Replicate(
            finish_days=self.now / 86_400 if finished else None,
            wall_days=self.now / 86_400,
            iteration=self.reached,
            useful_hours=useful / 3600,
            lost_hours={cause: losses[cause] / 3600 for cause in LOSSES},
            failures=self.failures,
            maintenances=self.maintenances,
            stops=self.stops,
            jobs=self.jobs,
            checkpoints_kept=kept,
            checkpoints_at_most=at_most,
        )

    def _spend(self, cause: str, seconds: float) -> bool:
        """Advance the time and count it as lost to `cause`. Return False if the horizon is reached."""
        self.over = self.now + seconds >= self.horizon
        if self.over:
            seconds = self.horizon - self.now
        self.lost[cause] += seconds
        self.now += seconds
        return not self.over

    def _wait(self) -> bool:
        left = self.draws.queue()
        while self.maintenance_at <= self.now + left:
            before = max(0.0, self.maintenance_at - self.now)
            left -= before
            if not (self._spend("queue", before) and self._maintain()):
                return False
        if not self._spend("queue", left):
            return False
        self.jobs += 1
        if self.jobs > _MOST_JOBS:
            raise CheckFailedError(
                f"the training makes no progress: iteration {self.base} of {self.work.iterations} after "
                f"{_MOST_JOBS:,} jobs, {self.failures:,} failures and {self.now / 86_400:,.0f} days",
                where="simulation",
                expected="fewer failures, a faster start or longer jobs (plan.faults), or more frequent saves "
                "(training.checkpoint)",
            )
        return True

    def _maintain(self) -> bool:
        self.maintenances += 1
        on = self._spend("maintenance", self.draws.maintenance_length())
        self.maintenance_at = self.now + self.draws.maintenance()
        return on

    def _next_strike(self) -> tuple[float, bool]:
        """Return the seconds until a failure or a maintenance ends the job, and whether it is a failure."""
        maintenance = self.maintenance_at - self.now
        return min(self.failure_left, maintenance), self.failure_left <= maintenance

    def _struck(self, failed: bool, ran: float) -> None:
        """Handle the failure or maintenance that ended the job.

        `failure_left` does not yet include the last `ran` seconds.
        """
        if failed:
            self.failures += 1
            self.failure_left = self.draws.failure()
        else:
            self.failure_left -= ran
            self._maintain()

    def _start(self) -> bool:
        seconds = 60 * self.work.scenario.restart_minutes
        strike, failed = self._next_strike()
        if strike < seconds:
            if self._spend("restart", strike):
                self._struck(failed, strike)
            return False
        self.failure_left -= seconds
        return self._spend("restart", seconds)

    def _last_iteration(self) -> int:
        """Return the iteration after which this job ends by itself."""
        work, scenario = self.work, self.work.scenario
        told = self.stop_left
        if scenario.job_seconds is not None:
            told = min(told, max(0.0, scenario.job_seconds - 60 * scenario.restart_minutes))
        # A job runs at least one iteration, so that a chain of jobs always makes progress.
        last = max(self.base + 1, work.first_done_from(work.done[self.base] + told))
        if scenario.job_iterations is not None:
            last = min(last, self.base + scenario.job_iterations)
        return min(last, work.iterations)

    def _train(self) -> None:
        work, last, start = self.work, self._last_iteration(), self.work.done[self.base]
        seconds = work.end_after(last) - start
        strike, failed = self._next_strike()
        ran = min(seconds, strike)
        cut = self.horizon - self.now < ran
        if cut:
            ran = self.horizon - self.now
        if self.spans is not None:
            self.spans.append(JobSpan(self.now, ran, self.base, last))
        if cut:
            self._stand(start + ran, last)
            self.now, self.over = self.horizon, True
            return
        self.now += ran
        wanted = self.stop_left <= ran
        self.stop_left = self.draws.stop() if wanted else self.stop_left - ran
        if strike < seconds:
            self.base = max(self.base, work.last_save_due(min(work.last_done(start + ran), last)))
            self.done = self.reached = self.base
            self.lost["rework"] += start + ran - work.done[self.base]
            self._struck(failed, ran)
            return
        self.failure_left -= ran
        self.stops += wanted
        if not work.saves_after(last):
            self.extra.append(last)
        self.base = self.done = self.reached = last
        self.over = last == work.iterations

    def _stand(self, clock: float, last: int) -> None:
        """Count the work of a job that trains when the simulation stops.

        Completed iterations count even if they were not saved.
        """
        work = self.work
        self.done = self.reached = min(work.last_done(clock), last)
        rest = clock - work.done[self.done]
        if self.done == last:
            self.begun = TimeUse(0.0, 0.0, rest)
        else:
            self.begun, through = work.begun(self.done + 1, rest)
            self.reached += through
