"""Detect that a training hangs: no rank makes progress, although at least one rank still writes its heartbeat.

The detector reads no clock and no file, and never compares the clocks of two hosts. It adds up the time between its
looks, and counts a look only if at least one rank wrote a new record a short time ago. So a file system that stalls for
minutes is not reported as a hang, because then all records stop at once. Time in which the launcher was suspended does
not count either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bloomery.contracts.heartbeat import Heartbeat, Place
from bloomery.detect.waiting_ranks import awaited_ranks

_MOST_SECONDS = 10.0
"""Maximum number of seconds that count between two looks. A longer pause means that the launcher was suspended, or that
its file system stalled."""
_FRESH_BEATS = 5
"""A rank is alive if it wrote a new record within this many times the usual time between two records."""


@dataclass(frozen=True)
class Hang:
    """A training that makes no progress."""

    seconds: float
    """Time without any progress."""
    ranks: tuple[int, ...]
    """Ranks that cause the hang, in ascending order."""
    silent: bool
    """Whether these ranks also stopped writing their heartbeats: their processes are stopped, or their nodes failed."""


@dataclass
class _Seen:
    """Newest observations of a rank. Times are in seconds of watched time."""

    progress: tuple[int, int, Place]
    beat: int
    beat_at: float


class HangDetector:
    """Detector of hangs for the ranks of one segment."""

    def __init__(self, ranks: int, first_seconds: float, beat_seconds: float) -> None:
        """Prepare a detector.

        Args:
            ranks: number of ranks.
            first_seconds: maximum time until the first record of a rank. The training also counts as hung if no rank
                has written a record for this time.
            beat_seconds: usual time between two records of a rank.
        """
        self._ranks = range(ranks)
        self._first_seconds, self._fresh_seconds = first_seconds, _FRESH_BEATS * beat_seconds
        self.beats: dict[int, Heartbeat] = {}
        """Newest readable record of each rank. A record cannot be read while it is being written."""
        self._seen: dict[int, _Seen] = {}
        self._last_look: float | None = None
        self._watched = 0.0
        self._idle = 0.0
        self.silent_seconds = 0.0
        """Number of seconds in which no rank has written a new record. 0 if a rank is alive."""

    def look(self, now: float, found: Mapping[int, Heartbeat]) -> Hang | None:
        """Return the hang if there is one.

        Args:
            now: seconds of a monotonic clock of the observer.
            found: readable records of the ranks.
        """
        beats = self.beats
        beats.update(found)
        passed = 0.0 if self._last_look is None else min(now - self._last_look, _MOST_SECONDS)
        self._last_look = now
        self._watched += passed
        progressed = self._update()
        active = [rank for rank, beat in beats.items() if beat.place is not Place.ENDED]
        alive = [rank for rank in active if self._age(rank) <= self._fresh_seconds]
        self.silent_seconds = 0.0 if alive else self.silent_seconds + passed
        if progressed:
            self._idle = 0.0
        elif alive:
            self._idle += passed
        if self._seen and not active and len(beats) == len(self._ranks):
            return None  # Every rank has ended its work.
        missing = [rank for rank in self._ranks if rank not in beats]
        # The last record of a stopped process may be from an earlier place with a larger limit.
        limits = [beats[rank].allowed_seconds for rank in alive] + [self._first_seconds] * bool(missing)
        if not alive:
            if self.silent_seconds <= self._first_seconds:
                return None
            return Hang(self.silent_seconds, tuple(sorted({*active, *missing})), True)
        return self._hang(active, missing) if self._idle > max(limits) else None

    def _update(self) -> bool:
        """Store what is new in the records. Return whether any rank made progress."""
        progressed = False
        for rank, beat in self.beats.items():
            progress, seen = (beat.pid, beat.progress, beat.place), self._seen.get(rank)
            if seen is None or seen.progress != progress:
                progressed = True
                self._seen[rank] = _Seen(progress, beat.beat, self._watched)
            elif seen.beat != beat.beat:
                seen.beat, seen.beat_at = beat.beat, self._watched
        return progressed

    def _age(self, rank: int) -> float:
        """Return the watched time since the rank's newest record."""
        return self._watched - self._seen[rank].beat_at

    def _hang(self, active: list[int], missing: list[int]) -> Hang:
        if missing:
            return Hang(self._idle, tuple(missing), False)
        # A stopped process wrote its last record when the progress ended. Ranks that wait for it still write records.
        silent = tuple(rank for rank in active if self._age(rank) > 0.5 * self._idle)
        if silent:
            return Hang(self._idle, silent, True)
        return Hang(self._idle, awaited_ranks(self.beats, self._ranks), False)
