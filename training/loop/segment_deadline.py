"""When a segment must end: after its own time, or in time before the scheduler ends the job."""

from __future__ import annotations

import math
import time


class SegmentDeadline:
    """Says when to save and end.

    Before the job's end it leaves room for a margin, one and a half times the longest save and twice the longest
    iteration that this segment has seen.
    """

    def __init__(
        self,
        minutes: float | None,
        end: float | None = None,
        margin_seconds: float = 0.0,
        iterations: int | None = None,
    ) -> None:
        """A segment's own length, the end of its job (Unix epoch) and the room before that end, its own iterations.

        None: no such limit.
        """
        self._deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        self._end = end
        self._iterations_left = math.inf if iterations is None else iterations
        self._margin_seconds = margin_seconds
        self._iteration_seconds = 0.0
        self._save_seconds = 0.0

    def note_iteration(self, seconds: float) -> None:
        """An iteration took so long."""
        self._iteration_seconds = max(self._iteration_seconds, seconds)
        self._iterations_left -= 1

    def note_save(self, seconds: float) -> None:
        """A save took so long."""
        self._save_seconds = max(self._save_seconds, seconds)

    @property
    def iterations_are_over(self) -> bool:
        """Whether the segment has run as many as it may."""
        return self._iterations_left <= 0

    def is_over(self) -> bool:
        """Whether it is time to save and end."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return True
        if self._end is None:
            return False
        reserve = self._margin_seconds + 1.5 * self._save_seconds + 2.0 * self._iteration_seconds
        return time.time() + reserve >= self._end
