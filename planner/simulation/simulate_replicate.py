"""One replicate, from event to event: a job waits, starts, trains until it ends by itself or is ended; and again.

Failures come while a job runs (also while it starts), maintenances at any time, and people want a restart only while it
trains. A failure or a maintenance throws away what was done since the newest complete save. A maintenance stops a
queue, which then goes on. A job whose time is up, or that people want to restart, ends its iteration (validation and
due save included), saves and leaves. A wanted restart that a failure forestalls is done with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from bloomery.base.errors import CheckFailedError
from planner.simulation.timeline import Timeline, TimeUse
from planner.simulation.waiting_times import WaitingTimes

LOSSES = ("rework", "restart", "queue", "maintenance", "saving", "validation")
"""What takes hours and trains nothing: work thrown away, starts, waits, the machine away, saves, validations."""
_MOST_JOBS = 100_000
"""A training that takes so many jobs does not come forward: it would be simulated for ever."""


class JobSpan(NamedTuple):
    """The training of one job."""

    start: float
    """Seconds since the beginning."""
    seconds: float
    base: int
    """Iteration of the checkpoint that it started from."""
    last: int
    """Iteration after which it would leave, if nothing ended it before."""


@dataclass(frozen=True)
class Replicate:
    """How one training went."""

    finish_days: float | None
    """None: not finished at the day that was asked for."""
    wall_days: float
    """Days that were played: to the finish, or to the day that was asked for."""
    iteration: int
    """Iterations through at the end; while no job trains, those of the newest checkpoint."""
    useful_hours: float
    """In iterations that were not thrown away."""
    lost_hours: dict[str, float]
    """By cause, all of `LOSSES`: with the useful hours they are the wall hours."""
    failures: int
    maintenances: int
    stops: int
    """Restarts that people wanted."""
    jobs: int
    """Jobs that came out of the queue."""
    checkpoints_kept: int
    checkpoints_at_most: int
    """On disk at once, while an old one waits for the new one to be complete."""


def simulate_replicate(
    work: Timeline, draws: WaitingTimes, *, horizon_seconds: float = math.inf, spans: list[JobSpan] | None = None
) -> Replicate:
    """Play a training to its end, or to `horizon_seconds` if that comes first; `spans` collects the jobs' trainings.

    Raises CheckFailedError when it does not come forward.
    """
    return _Replication(work, draws, horizon_seconds, spans).run()


class _Replication:
    def __init__(self, work: Timeline, draws: WaitingTimes, horizon: float, spans: list[JobSpan] | None) -> None:
        self.work, self.draws, self.horizon, self.spans = work, draws, horizon, spans
        self.now = 0.0
        self.base = self.done = self.reached = 0
        """Iterations at the newest checkpoint; done with all that is due after them; through."""
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
        """Let time pass; False when the horizon comes first."""
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
                f"the training does not come forward: iteration {self.base} of {self.work.iterations} after "
                f"{_MOST_JOBS:,} jobs, {self.failures:,} failures and {self.now / 86_400:,.0f} days",
                where="simulation",
                expected="fewer failures, more frequent saves, a faster start or longer jobs",
            )
        return True

    def _maintain(self) -> bool:
        self.maintenances += 1
        on = self._spend("maintenance", self.draws.maintenance_length())
        self.maintenance_at = self.now + self.draws.maintenance()
        return on

    def _next_strike(self) -> tuple[float, bool]:
        """Seconds until something ends the job, and whether that is a failure."""
        maintenance = self.maintenance_at - self.now
        return min(self.failure_left, maintenance), self.failure_left <= maintenance

    def _struck(self, failed: bool, ran: float) -> None:
        """What ended the job, `ran` seconds after the last look at the clocks."""
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
        """After which this job leaves by itself."""
        work, scenario = self.work, self.work.scenario
        told = self.stop_left
        if scenario.job_seconds is not None:
            told = min(told, max(0.0, scenario.job_seconds - 60 * scenario.restart_minutes))
        # At least one iteration, so that a chain of jobs always comes forward.
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
        """The horizon came while a job trained: what is through counts, saved or not."""
        work = self.work
        self.done = self.reached = min(work.last_done(clock), last)
        rest = clock - work.done[self.done]
        if self.done == last:
            self.begun = TimeUse(0.0, 0.0, rest)
        else:
            self.begun, through = work.begun(self.done + 1, rest)
            self.reached += through
