"""Decide when a segment must end: at its limit of time or iterations, or before the scheduler ends the job."""

from __future__ import annotations

import math
import time


class SegmentDeadline:
    """Deadline at which a segment must save and end.

    The time reserved before the job's end is the sum of the margin, 1.5 times the longest save and 2 times the longest
    iteration of this segment.
    """

    def __init__(
        self,
        minutes: float | None,
        end: float | None = None,
        margin_seconds: float = 0.0,
        iterations: int | None = None,
    ) -> None:
        """Set the limits of the segment. If a limit is None, it does not apply.

        Args:
            minutes: longest duration of the segment, in minutes.
            end: time at which the scheduler ends the job, in seconds of the Unix epoch.
            margin_seconds: time to reserve before the end of the job, in addition to the time for a save and
                iterations.
            iterations: largest number of iterations of the segment.
        """
        self._deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        self._end = end
        self._iterations_left = math.inf if iterations is None else iterations
        self._margin_seconds = margin_seconds
        self._iteration_seconds = 0.0
        self._save_seconds = 0.0

    def note_iteration(self, seconds: float) -> None:
        """Record the duration of an iteration."""
        self._iteration_seconds = max(self._iteration_seconds, seconds)
        self._iterations_left -= 1

    def note_save(self, seconds: float) -> None:
        """Record the duration of a save."""
        self._save_seconds = max(self._save_seconds, seconds)

    @property
    def iterations_are_over(self) -> bool:
        """Whether the segment has reached its limit of iterations."""
        return self._iterations_left <= 0

    def is_over(self) -> bool:
        """Whether it is time to save and end, because of the segment's time limit or the end of the job."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return True
        if self._end is None:
            return False
        reserve = self._margin_seconds + 1.5 * self._save_seconds + 2.0 * self._iteration_seconds
        return time.time() + reserve >= self._end
