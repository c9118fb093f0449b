"""Simulate a training in the plainest way: second by second, with a folder of checkpoints that is pruned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.simulation.scenario import Scenario
from planner.simulation.simulate_replicate import LOSSES, Replicate

DAY = 86_400


@dataclass
class FixedWaitingTimes:
    """Waiting times from fixed lists. After the end of its list, an event does not happen again."""

    failures: list[int]
    maintenances: list[int]
    lengths: list[int]
    queues: list[int]
    stops: list[int]
    used: dict[str, int] = field(default_factory=dict)

    def _next(self, name: str, end: float) -> float:
        place = self.used.get(name, 0)
        self.used[name] = place + 1
        values = getattr(self, name)
        return values[place] if place < len(values) else end

    def failure(self) -> float:
        return self._next("failures", math.inf)

    def maintenance(self) -> float:
        return self._next("maintenances", math.inf)

    def maintenance_length(self) -> float:
        return self._next("lengths", 0)

    def queue(self) -> float:
        return self._next("queues", 0)

    def stop(self) -> float:
        return self._next("stops", math.inf)


class TickingClock:
    """A training that advances by seconds and iterations, with a folder of checkpoints that is pruned."""

    def __init__(self, scenario: Scenario, draws: FixedWaitingTimes, horizon: float) -> None:
        self.scenario, self.draws, self.horizon = scenario, draws, horizon
        self.seconds = [int(phase.seconds) for phase in scenario.phases for _ in range(phase.iterations)]
        self.now = self.checkpoint = self.reached = 0
        self.spent = dict.fromkeys(("useful", *LOSSES), 0)
        self.unsaved: list[str] = []
        self.folder: list[int] = []
        self.failures = self.maintenances = self.stops = self.jobs = self.at_most = 0
        self.failure_left, self.stop_left = draws.failure(), draws.stop()
        self.maintenance_at = draws.maintenance()

    def run(self) -> Replicate:
        while self.checkpoint < len(self.seconds) and self.now < self.horizon:
            if self.wait():
                self.job()
        for kind in self.unsaved:
            self.spent[kind] += 1
        return Replicate(
            finish_days=self.now / DAY if self.checkpoint == len(self.seconds) else None,
            wall_days=self.now / DAY,
            iteration=self.reached,
            useful_hours=self.spent["useful"] / 3600,
            lost_hours={cause: self.spent[cause] / 3600 for cause in LOSSES},
            failures=self.failures,
            maintenances=self.maintenances,
            stops=self.stops,
            jobs=self.jobs,
            checkpoints_kept=len(self.folder),
            checkpoints_at_most=self.at_most,
        )

    def tick(self, kind: str) -> bool:
        if self.now == self.horizon:
            return False
        self.now += 1
        self.spent[kind] += 1
        return True

    def wait(self) -> bool:
        left = self.draws.queue()
        while True:
            if self.now >= self.maintenance_at:
                self.maintain()
            elif not left:
                break
            elif self.tick("queue"):
                left -= 1
            if self.now == self.horizon:
                return False
        self.jobs += 1
        return True

    def maintain(self) -> None:
        self.maintenances += 1
        for _ in range(int(self.draws.maintenance_length())):
            self.tick("maintenance")
        self.maintenance_at = self.now + self.draws.maintenance()

    def job(self) -> None:
        for kind in self.script():
            if self.failure_left == 0 or self.now == self.maintenance_at:
                self.strike()
                return
            if self.now == self.horizon:
                return
            self.now += 1
            self.failure_left -= 1
            if kind == "restart":
                self.spent["restart"] += 1
            else:
                self.unsaved.append(kind)
                self.stop_left -= 1
        self.stops += self.stop_left <= 0
        self.stop_wanted_again()

    def strike(self) -> None:
        self.spent["rework"] += len(self.unsaved)
        self.unsaved, self.reached = [], self.checkpoint
        self.stop_wanted_again()
        if self.failure_left == 0:
            self.failures += 1
            self.failure_left = self.draws.failure()
        else:
            self.maintain()

    def stop_wanted_again(self) -> None:
        if self.stop_left <= 0:
            self.stop_left = self.draws.stop()

    def script(self) -> Iterator[str]:
        """Yield the activity of each second of a job. The effect of a second occurs when the next second begins."""
        own, trained = self.scenario, 0
        start = int(60 * own.restart_minutes)
        for _ in range(start):
            yield "restart"
        first = iteration = self.checkpoint
        while True:
            iteration += 1
            last = iteration == len(self.seconds)
            every = next((n for until, n in own.save_rules if iteration <= until), own.save_every_iterations)
            saves = iteration % every == 0 or iteration in own.save_at_iterations or last
            steps = ["useful"] * self.seconds[iteration - 1]
            pauses = []
            if iteration % own.validation_every_iterations == 0 or last:
                pauses += ["validation"] * int(own.validation_seconds)
            if saves:
                pauses += ["saving"] * int(own.save_seconds)
            yield from steps
            self.reached = iteration
            yield from pauses
            trained += len(steps) + len(pauses)
            if saves:
                self.save(iteration)
            if last:
                return
            told = own.job_seconds is not None and start + trained >= own.job_seconds
            full = own.job_iterations is not None and iteration - first >= own.job_iterations
            if told or full or self.stop_left <= 0:
                if not saves:
                    yield from ["saving"] * int(own.save_seconds)
                    self.save(iteration)
                return

    def save(self, iteration: int) -> None:
        for kind in self.unsaved:
            self.spent[kind] += 1
        self.unsaved, self.checkpoint = [], iteration
        self.folder.append(iteration)
        self.at_most = max(self.at_most, len(self.folder))
        for_good = self.scenario.keep_every_iterations
        for old in self.folder[: -self.scenario.keep_last]:
            if (not for_good or old % for_good) and old not in self.scenario.save_at_iterations:
                self.folder.remove(old)
