"""Read the attempts of a training from its launches, the records of its segments, and metrics.jsonl."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.contracts.launches import Launch, read_launches
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.recorded_times import RecordedAttempt, read_recorded_times
from bloomery.contracts.segment import Fault, Segment, SegmentStatus, read_segment
from monitoring.goodput import Attempt, Goodput, goodput

_NUMBERED = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.json")
_MATCH_SECONDS = 60.0
"""Maximum difference between the start in train/launches.jsonl and the start in the segment's record, in seconds."""
_LOSES = (SegmentStatus.CRASHED, SegmentStatus.FAILED, SegmentStatus.ROLLED_BACK)
"""Statuses after which the next segment resumes from the iteration of the record. Later iterations are lost."""


@dataclass(frozen=True)
class Timeline:
    """All attempts of a training, and what its time was used for."""

    attempts: list[Attempt]
    """All attempts, in order."""
    goodput: Goodput | None
    """Use of the time since the first attempt began. None before the first attempt, or if only the end of a very large
    metrics.jsonl was read."""
    now: float
    """Time when the timeline was read, in seconds of the Unix epoch. A running attempt lasts until now."""


@dataclass
class _Known:
    """An attempt with its launch and its segment's record. Either of them may be missing."""

    number: int
    launch: Launch | None = None
    segment: Segment | None = None

    @property
    def started(self) -> str | None:
        if self.launch is not None:
            return self.launch.started
        return None if self.segment is None else self.segment.started


def read_timeline(
    paths: RunPaths, now: float, *, running: bool = False, queued_since: float | None = None, finished: bool = False
) -> Timeline:
    """Read all attempts of a training. Damaged records of segments are skipped.

    Args:
        paths: paths of the run.
        now: the current time, in seconds of the Unix epoch.
        running: whether a launcher of this training runs now.
        queued_since: time when the training job that waits in the queue was submitted; None if no such job waits.
        finished: whether the training has finished.
    """
    known = join_records(read_launches(paths), _history(paths))
    starts: dict[int, list[str]] = defaultdict(list)
    for each in known:
        if each.started is not None:
            starts[each.number].append(each.started)
    recorded = read_recorded_times(paths.logs / "metrics.jsonl", starts, _resumed(known))
    attempts = _attempts(known, recorded.attempts)
    if running and attempts and attempts[-1].status is None:
        attempts[-1] = replace(attempts[-1], running=True)
    used = goodput(attempts, now, finished=finished, queued_since=queued_since) if recorded.complete else None
    return Timeline(attempts, used, now)


def _history(paths: RunPaths) -> list[Segment]:
    """Return the records of all attempts, in order of the segments and of their attempts."""
    names: list[tuple[int, int, Path]] = []
    for path in (paths.segments / "history").glob("*.json"):
        if match := _NUMBERED.fullmatch(path.name):
            names.append((int(match.group(1)), int(match.group(2)), path))
    found = []
    for _, _, path in sorted(names):
        try:
            found.append(read_segment(path))
        except InputError:
            continue
    return found


def join_records(launches: Sequence[Launch], segments: Sequence[Segment]) -> list[_Known]:
    """Join each launch with the record of its segment, and return all attempts in order.

    A launch without a record was killed or still runs. A record without a launch was written by an earlier version.
    """
    known = [_Known(launch.segment, launch) for launch in launches]
    for segment in segments:
        free = [each for each in known if each.number == segment.number and each.segment is None and each.launch]
        match = _match(free, segment)
        if match is not None:
            match.segment = segment
        else:
            known.append(_Known(segment.number, None, segment))
    # Attempts of an equal number without a known start keep their order, because the sort is stable.
    return sorted(known, key=lambda each: (each.number, each.started or ""))


def _match(free: Sequence[_Known], segment: Segment) -> _Known | None:
    """Return the attempt among `free` that a record belongs to; None if it belongs to none of them.

    `free` has the launches of the record's segment, in order, that have no record yet.
    """
    if not free:
        return None
    if segment.started is None:
        # A record without a start belongs to the newest launch, unless a later launcher recorded a lost job.
        return free[0 if segment.fault is Fault.LOST else -1]
    started = _epoch(segment.started)

    def difference(each: _Known) -> float:
        return abs(_epoch(each.started) - started) if each.started else _MATCH_SECONDS

    closest = min(free, key=difference)
    return closest if difference(closest) < _MATCH_SECONDS else None


def _resumed(known: Sequence[_Known]) -> int | None:
    """Return the iteration from which the next segment resumes, if the last attempt lost iterations; otherwise None."""
    last = known[-1].segment if known else None
    return last.iteration if last is not None and last.status in _LOSES else None


def _attempts(known: Sequence[_Known], recorded: Sequence[RecordedAttempt]) -> list[Attempt]:
    """Add the recorded times to the known attempts, and return all attempts in order."""
    times = {(each.segment, each.index): each for each in recorded}
    with_start = {each.number for each in known if each.started is not None}
    counts: dict[int, int] = defaultdict(int)
    found = []
    for each in known:
        # `RecordedAttempt.index` counts from 1. An attempt without a known start comes before those with one.
        if each.started is not None or each.number not in with_start:
            counts[each.number] += 1
        found.append(_attempt(each, times.pop((each.number, counts[each.number]), None)))
    found += [_attempt(_Known(each.segment), each) for each in times.values()]
    found.sort(key=lambda attempt: (attempt.segment, attempt.beginning or 0.0))
    return found


def _attempt(known: _Known, times: RecordedAttempt | None) -> Attempt:
    launch, segment = known.launch, known.segment
    # The record of a lost job was written when the loss was noticed, not when the job ended.
    ended = None if segment is None or segment.fault is Fault.LOST else segment.ended
    attempt = Attempt(
        segment=known.number,
        submitted=_epoch(launch.submitted) if launch and launch.submitted else None,
        started=_epoch(known.started) if known.started else None,
        ended=_epoch(ended) if ended else None,
        begun=None,
        last=None,
        job=launch.job if launch else None,
    )
    if segment is not None:
        attempt = replace(
            attempt,
            status=segment.status.value,
            fault=segment.fault.value if segment.fault else None,
            message=segment.message,
            job=segment.job or attempt.job,
            nodes=segment.nodes,
            first_failure=segment.first_failure,
            end_saves=segment.end_save_seconds or 0.0,
        )
    if times is not None:
        attempt = replace(
            attempt,
            begun=times.begun,
            last=times.last,
            training=times.training,
            lost=times.lost,
            saves=times.saves,
            validation=times.validation,
            first_iteration=times.first_iteration,
            last_iteration=times.last_iteration,
        )
    return attempt


def _epoch(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
