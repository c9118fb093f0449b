"""Compute when each iteration of a scenario is complete. The clock runs only while a job trains and no work is lost.

A table stores the time at which each iteration is complete, including its validation and save. Events then need only
binary searches, for example for the current iteration, the last save or the end of a job. The time to simulate a
replicate therefore grows with its number of events, not with its number of iterations. The table takes 8 bytes for each
iteration, which is 0.9 MB for BLOOM.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate

from bloomery.spec.save_points import is_due, is_for_good
from planner.simulation.scenario import Scenario


@dataclass(frozen=True)
class TimeUse:
    """Seconds of a training, by what they were used for."""

    useful: float
    validation: float
    saving: float


class Timeline:
    """Times in seconds from the start of iteration 1, without interruptions."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.iterations = scenario.iterations
        self._phase_ends = list(accumulate(phase.iterations for phase in scenario.phases))
        self._checkpoint = scenario.checkpoint
        self._saves = [i for i in range(1, self.iterations + 1) if i == self.iterations or is_due(self._checkpoint, i)]
        self._saved_after = frozenset(self._saves)
        self._for_good = list(accumulate((is_for_good(self._checkpoint, i) for i in self._saves), initial=0))
        """`_for_good[n]` is how many checkpoints of the first n saves are never removed."""
        self.done = array("d", [0.0])
        """`done[i]` is the time at which iteration i is complete, with the validation and the save due after it."""
        clock, iteration = 0.0, 0
        for phase in scenario.phases:
            for _ in range(phase.iterations):
                iteration += 1
                clock += phase.seconds
                if self.validates_after(iteration):
                    clock += scenario.validation_seconds
                if self.saves_after(iteration):
                    clock += scenario.save_seconds
                self.done.append(clock)

    def validates_after(self, iteration: int) -> bool:
        """Return whether a validation is due after the iteration."""
        return iteration % self.scenario.validation_every_iterations == 0 or iteration == self.iterations

    def saves_after(self, iteration: int) -> bool:
        """Return whether a save is due after the iteration."""
        return iteration in self._saved_after

    def last_done(self, clock: float) -> int:
        """Return the newest iteration that is complete at `clock`, with the validation and the save due after it."""
        return bisect_right(self.done, clock) - 1

    def first_done_from(self, clock: float) -> int:
        """Return the first iteration that is complete at `clock` or later, or the number of iterations + 1 if there is
        none."""
        return bisect_left(self.done, clock)

    def last_save_due(self, iteration: int) -> int:
        """Return the newest iteration up to `iteration` after which a save is due; 0 if there is none."""
        saves = bisect_right(self._saves, iteration)
        return self._saves[saves - 1] if saves else 0

    def end_after(self, iteration: int) -> float:
        """Return the time at which a job ends after `iteration`, including a save of its own if none is due."""
        return self.done[iteration] + (0.0 if self.saves_after(iteration) else self.scenario.save_seconds)

    def share(self, iteration: int) -> TimeUse:
        """Return what the time up to the end of `iteration` was used for."""
        scenario, useful, left = self.scenario, 0.0, iteration
        for phase in scenario.phases:
            useful += min(left, phase.iterations) * phase.seconds
            left -= min(left, phase.iterations)
        last = int(iteration == self.iterations)
        validations = (iteration - last) // scenario.validation_every_iterations + last
        saves = bisect_right(self._saves, iteration)
        return TimeUse(useful, validations * scenario.validation_seconds, saves * scenario.save_seconds)

    def begun(self, iteration: int, seconds: float) -> tuple[TimeUse, bool]:
        """Return what the first `seconds` of `iteration` were used for, and whether the iteration was complete by then.

        A validation or a save after the iteration need not be complete.
        """
        own = self._seconds_of(iteration)
        useful = min(seconds, own)
        validation = min(seconds - useful, self.scenario.validation_seconds) if self.validates_after(iteration) else 0.0
        return TimeUse(useful, validation, seconds - useful - validation), seconds >= own

    def _seconds_of(self, iteration: int) -> float:
        return self.scenario.phases[bisect_left(self._phase_ends, iteration)].seconds

    def reached(self, clock: float, last: int) -> int:
        """Return the number of iterations completed at `clock`, in a job that ends after iteration `last`."""
        iteration = min(self.last_done(clock), last)
        if iteration < last and self.begun(iteration + 1, clock - self.done[iteration])[1]:
            return iteration + 1
        return iteration

    def kept(self, newest: int, extra: list[int]) -> tuple[int, int]:
        """Return how many checkpoints are retained after iteration `newest` is saved, and the largest number at once.

        `extra` lists, in ascending order, the iterations at which an ending job saved although no save was due. A new
        checkpoint is written before an old one is removed, and the number of retained checkpoints never decreases. The
        largest number is therefore the number before the newest save, plus one.
        """
        due = bisect_right(self._saves, newest)
        if not due and not extra:
            return 0, 0
        before = self._kept(due - 1, extra) if self.saves_after(newest) else self._kept(due, extra[:-1])
        return self._kept(due, extra), before + 1

    def _kept(self, due: int, extra: list[int]) -> int:
        """Return how many checkpoints are retained after the first `due` saves that were due and after the `extra`
        saves."""
        last, checkpoint = self.scenario.keep_last, self._checkpoint
        for_good = self._for_good[due] + len([i for i in extra if is_for_good(checkpoint, i)])
        recent = sorted([*self._saves[max(0, due - last) : due], *extra[-last:]])[-last:]
        return for_good + len([i for i in recent if not is_for_good(checkpoint, i)])
