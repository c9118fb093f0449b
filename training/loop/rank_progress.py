"""Count this rank's progress, and record what the rank is doing, for its heartbeat and for the detection of hangs.

The counts must be much finer than iterations and cost almost no time. So an event only adds 1 to a number, and reads no
clock. The thread of `training.loop.heartbeat` reads the numbers every few seconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from bloomery.config.training_loop import HeartbeatConfig
from bloomery.contracts.heartbeat import Place

_ITERATIONS = 101
"""Number of past iterations whose median is the usual iteration."""


class RankProgress:
    """Progress of this rank."""

    def __init__(self) -> None:
        self.count = 0
        """Number that grows with each event."""
        self.place = Place.STARTING
        self.iteration = 0
        """Iteration that the rank runs, or the last one that it ran."""
        self._iterations: deque[float] = deque(maxlen=_ITERATIONS)
        self._shapes: set[tuple[int, int]] = set()
        self._in_new_shape = True
        self._longest: dict[Place, float] = {}

    def enter(self, place: Place) -> None:
        """Record that the rank is at `place` from now on."""
        self.place = place
        self.count += 1

    @contextmanager
    def during(self, place: Place) -> Iterator[None]:
        """Record that the rank is at `place` inside the block. Measure the time if the block raises no error."""
        before, started = self.place, time.perf_counter()
        self.enter(place)
        try:
            yield
            self._longest[place] = max(self._longest.get(place, 0.0), time.perf_counter() - started)
        finally:
            self.enter(before)

    @contextmanager
    def step(self, iteration: int, shape: tuple[int, int]) -> Iterator[None]:
        """Record that the rank runs an iteration inside the block, with micro-batches of `shape`. Measure its time."""
        self.iteration, self._in_new_shape = iteration, shape not in self._shapes
        started = time.perf_counter()
        self.enter(Place.ITERATION)
        yield
        if not self._in_new_shape:
            self._iterations.append(time.perf_counter() - started)
        self._shapes.add(shape)
        self._in_new_shape = False

    def allowed_seconds(self, config: HeartbeatConfig) -> float:
        """Return the number of seconds without progress after which the training counts as hung at this place."""
        first = 60.0 * config.first_minutes
        if self.place is Place.SAVING:
            longest = self._longest.get(Place.SAVING)
            return first if longest is None else config.iterations * longest + config.save_seconds
        if self.place in (Place.VALIDATION, Place.REPLAY):
            is_measured = self.place in self._longest
        else:
            is_measured = self.place is Place.ITERATION and not self._in_new_shape
        if not is_measured or not self._iterations:
            return first
        # With several micro-batch shapes, the median may be that of short iterations. A single event of a long
        # iteration is still much shorter than this limit.
        return config.iterations * median(self._iterations) + config.seconds


def count_instructions(engine: Any, progress: RankProgress) -> None:
    """Make a pipeline engine of DeepSpeed count each of its instructions, such as a forward pass."""

    def counted(execute: Callable[..., None]) -> Callable[..., None]:
        def run(engine: Any, **arguments: Any) -> None:
            progress.count += 1
            execute(engine, **arguments)

        return run

    engine._INSTRUCTION_MAP = {kind: counted(execute) for kind, execute in engine._INSTRUCTION_MAP.items()}


PROGRESS = RankProgress()
"""Progress of this process."""
