"""Add up the recorded times of a training's attempts, from metrics.jsonl.

`bloomery status` reads the records of all iterations, and a large training has 115,000 of them. To parse a line takes
30 microseconds. To cut five fields out of it takes only 3 microseconds. So only lines that do not have the exact form
of `metrics_record.dump_record` are parsed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord, parse_record

_FIRST = b'{"iteration":'
_SECONDS = b',"seconds":'
_SEGMENT = b',"segment":'
_TIME = b',"time":"'
_SAVE = b',"save_seconds":'
_MOST_BYTES = 256 << 20
"""Largest file that is read as a whole: 600,000 iterations, in 3 seconds. The 95,000 iterations of BLOOM take 43 MB."""
_END_BYTES = 16 << 20
"""Number of bytes that are read from the end of a larger file."""
_TIME_BYTES = len("2026-01-31T12:00:00Z")


@dataclass
class RecordedAttempt:
    """Times of one attempt to run a segment, as far as metrics.jsonl records them. All durations are in seconds."""

    segment: int
    index: int
    """Position of the attempt among the segment's attempts with a known start, from 1. The position is 0 before the
    first known start. If no start is known, the position counts all attempts of the segment, from 1."""
    first_iteration: int = 0
    """First iteration of the attempt; 0 if the attempt ran none."""
    last_iteration: int = 0
    """Last iteration of the attempt; 0 if the attempt ran none."""
    training: float = 0.0
    """Duration of all iterations, including those that were lost."""
    lost: float = 0.0
    """Duration of the iterations that were lost, because the training resumed from an earlier iteration."""
    saves: float = 0.0
    validation: float = 0.0
    begun: float = 0.0
    """Time when the first recorded iteration or validation began, in seconds of the Unix epoch."""
    last: float = 0.0
    """Time of the last record, in seconds of the Unix epoch."""


class AttemptTimes:
    """The attempts of a training, to which records are added in the order of the file."""

    def __init__(self, starts: Mapping[int, Sequence[str]]) -> None:
        """Begin without any record.

        `starts` maps the number of a segment to the times when its attempts started, in order (UTC, ISO 8601). If no
        start of a segment is known, a new attempt begins whenever the number of the iteration does not grow.
        """
        self.attempts: list[RecordedAttempt] = []
        self._starts = starts
        self._valid: list[tuple[int, float, RecordedAttempt]] = []
        self._newest: RecordedAttempt | None = None
        self._texts: list[list[str]] = []
        """Times of the first and the last record of each attempt. Only these times are converted."""
        self._first_seconds: list[float] = []

    def add_step(self, iteration: int, segment: int, time: str, seconds: float, save_seconds: float) -> None:
        """Add the record of an iteration."""
        attempt = self._attempt(segment, time, seconds + save_seconds, iteration)
        if self._valid and self._valid[-1][0] >= iteration:
            self.lose_after(iteration - 1)
        self._valid.append((iteration, seconds, attempt))
        attempt.saves += save_seconds
        attempt.training += seconds
        attempt.last_iteration = iteration

    def add_validation(self, segment: int, time: str, seconds: float) -> None:
        """Add the record of a validation."""
        self._attempt(segment, time, seconds, None).validation += seconds

    def lose_after(self, iteration: int) -> None:
        """Count all iterations after `iteration` as lost."""
        valid = self._valid
        while valid and valid[-1][0] > iteration:
            _, seconds, attempt = valid.pop()
            attempt.lost += seconds

    def finish(self) -> list[RecordedAttempt]:
        """Convert the times of the attempts, and return the attempts in the order of the file."""
        for attempt, (first, last), seconds in zip(self.attempts, self._texts, self._first_seconds, strict=True):
            attempt.begun = datetime.fromisoformat(first).timestamp() - seconds
            attempt.last = datetime.fromisoformat(last).timestamp()
        return self.attempts

    def _attempt(self, segment: int, time: str, seconds: float, iteration: int | None) -> RecordedAttempt:
        """Return the attempt of a record, which was written at `time` and took `seconds`. Create it if it is new.

        `iteration` is the record's iteration, or None for a validation.
        """
        attempt = self._newest
        if attempt is not None and attempt.segment == segment:
            starts, index = self._starts.get(segment, ()), attempt.index
            if not starts:
                index += iteration is not None and iteration <= attempt.last_iteration
            else:
                # All times have the same form, so a comparison of their texts compares the times.
                while index < len(starts) and starts[index] < time:
                    index += 1
        else:
            index = self._first_index(segment, time)
        if attempt is None or attempt.segment != segment or attempt.index != index:
            attempt = self._newest = RecordedAttempt(segment, index)
            self.attempts.append(attempt)
            self._texts.append([time, time])
            self._first_seconds.append(seconds)
        self._texts[-1][1] = time
        attempt.first_iteration = attempt.first_iteration or iteration or 0
        return attempt

    def _first_index(self, segment: int, time: str) -> int:
        starts = self._starts.get(segment, ())
        if starts and time < starts[0]:
            return 0
        return max(1, sum(each < time for each in starts))


@dataclass(frozen=True)
class RecordedTimes:
    """The attempts that metrics.jsonl records."""

    attempts: list[RecordedAttempt]
    """Attempts in the order of the file."""
    complete: bool
    """Whether the whole file was read. Otherwise the first attempts are missing or incomplete."""


def read_recorded_times(path: Path, starts: Mapping[int, Sequence[str]], resumed: int | None) -> RecordedTimes:
    """Return the recorded times of all attempts; no attempts if metrics.jsonl does not exist.

    Lines that are no record of an iteration or a validation are skipped, and so is an unfinished last line. If the file
    has more than `_MOST_BYTES`, only its end is read.

    Args:
        path: the file metrics.jsonl.
        starts: times when the attempts of each segment started (see `AttemptTimes`).
        resumed: iteration from which the next segment resumes; later iterations are lost. None if nothing is lost.
    """
    found = AttemptTimes(starts)
    try:
        size = path.stat().st_size
        with path.open("rb") as handle:
            if size > _MOST_BYTES:
                handle.seek(size - _END_BYTES)
            lines = handle.read().split(b"\n")
    except FileNotFoundError:
        return RecordedTimes([], complete=True)
    complete = size <= _MOST_BYTES
    for line in lines[0 if complete else 1 : -1]:
        if not _add_fast(found, line):
            _add_parsed(found, line)
    if resumed is not None:
        found.lose_after(resumed)
    return RecordedTimes(found.finish(), complete)


def _add_fast(found: AttemptTimes, line: bytes) -> bool:
    """Add the record of an iteration if the line has the exact form of one. Return whether it was added."""
    seconds, segment = line.find(_SECONDS), line.find(_SEGMENT)
    time = line.find(_TIME, segment)
    if not line.startswith(_FIRST) or not 0 < seconds < segment < time:
        return False
    saved = line.find(_SAVE, time)
    text = line[time + len(_TIME) : time + len(_TIME) + _TIME_BYTES]
    if text[-1:] != b"Z":
        return False
    try:
        datetime.fromisoformat(text.decode("ascii"))
        values = (
            int(line[len(_FIRST) : line.index(b",")]),
            int(line[segment + len(_SEGMENT) : time]),
            text.decode("ascii"),
            float(line[seconds + len(_SECONDS) : line.index(b",", seconds + 1)]),
            0.0 if saved < 0 else float(line[saved + len(_SAVE) :].rstrip(b"}").split(b",", 1)[0]),
        )
    except ValueError:
        return False
    if not (0.0 <= values[3] < math.inf and 0.0 <= values[4] < math.inf):
        return False
    found.add_step(*values)
    return True


def _add_parsed(found: AttemptTimes, line: bytes) -> None:
    """Add the record of a line; skip events, energy, and lines that are not a record."""
    if b'"event":' in line or b'"energy_kwh":' in line:
        return
    try:
        record = parse_record(line)
    except ValueError:
        return
    # A duration can only be negative if a clock was changed.
    seconds = max(0.0, getattr(record, "seconds", None) or 0.0)
    if isinstance(record, MetricsRecord):
        saves = max(0.0, record.save_seconds or 0.0)
        found.add_step(record.iteration, record.segment, record.time, seconds, saves)
    elif isinstance(record, ValidationRecord):
        found.add_validation(record.segment, record.time, seconds)
