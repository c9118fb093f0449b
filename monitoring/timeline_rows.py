"""Render the timeline of a training for the screen: one row for each segment, and one for the use of the time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby

from bloomery.base.times import utc_text
from bloomery.base.units import format_seconds
from bloomery.base.visible_text import visible_text
from bloomery.contracts.segment import FirstFailure
from monitoring.goodput import Attempt, Goodput, TimeUse
from monitoring.timeline import Timeline

SHOWN = 6
"""Number of attempts that are shown unless all are requested."""
_LEAST_SHARE = 0.0005
"""Smallest share of the time that is shown."""
_LONGEST_ENDING = 120
_HOST = re.compile(r"(.*?)(\d+)")


def timeline_rows(timeline: Timeline, *, every: bool = False) -> list[tuple[str, str]]:
    """Return one row for each attempt, oldest first: the last ones, or all with `every`."""
    attempts = timeline.attempts
    shown = attempts if every else attempts[-SHOWN:]
    rows = [(f"segment {attempt.segment}", attempt_text(attempt, timeline.now)) for attempt in shown]
    if hidden := len(attempts) - len(shown):
        rows.insert(0, ("segments", f"the last {len(shown)} of {hidden + len(shown):,}; to show all: --all"))
    return rows


def attempt_text(attempt: Attempt, now: float) -> str:
    """Return status, start, duration, iterations, nodes and first failure of an attempt, as far as they are known.

    `now` is the current time in seconds of the Unix epoch, up to which a running attempt is shown.
    """
    words = [_status(attempt)]
    begin = attempt.beginning
    if begin is not None:
        words.append(utc_text(datetime.fromtimestamp(begin, UTC)))
        ends = (attempt.ended, attempt.last) if not attempt.running else (now,)
        if known := [end for end in ends if end is not None]:
            words.append(format_seconds(max(0.0, known[0] - begin)))
    if attempt.last_iteration:
        words.append(f"iterations {attempt.first_iteration:,} to {attempt.last_iteration:,}")
    elif not attempt.running:
        words.append("no iteration")
    if attempt.job:
        words.append(f"job {attempt.job}")
    if attempt.nodes:
        words.append(compress_hosts(attempt.nodes))
    if attempt.first_failure is not None:
        words.append(_first_failure(attempt.first_failure))
    return ", ".join(words)


def goodput_text(found: Goodput) -> str:
    """Return the share of the time in which the training progressed, and the other uses, largest first."""
    since = utc_text(datetime.fromtimestamp(found.since, UTC))
    said = f"{_percent(found.share)} of {_duration(found.total)} since {since}"
    others = {use: seconds for use, seconds in found.seconds.items() if use is not TimeUse.TRAINING}
    shown = [
        f"{use.value} {_percent(seconds / found.total)}"
        for use, seconds in sorted(others.items(), key=lambda each: -each[1])
        if found.total and seconds / found.total >= _LEAST_SHARE
    ]
    return f"{said} trained the current weights; the rest: {', '.join(shown)}" if shown else said


def compress_hosts(hosts: Iterable[str]) -> str:
    """Write host names as SLURM does: `node1, node2, node3, gpu07` -> `gpu07,node[1-3]`."""
    parts = []
    for prefix, group in groupby(sorted(set(hosts), key=_host_key), key=lambda host: _host_key(host)[0]):
        names = list(group)
        digits = [name[len(prefix) :] for name in names]
        if not all(digits) or len(names) == 1:
            parts += names
            continue
        ranges = [[digits[0], digits[0]]]
        for each in digits[1:]:
            if int(each) == int(ranges[-1][1]) + 1 and len(each) >= len(ranges[-1][1]):
                ranges[-1][1] = each
            else:
                ranges.append([each, each])
        joined = ",".join(first if first == last else f"{first}-{last}" for first, last in ranges)
        parts.append(f"{prefix}[{joined}]")
    return ",".join(parts)


def _host_key(host: str) -> tuple[str, int, int]:
    """Return the name without the number at its end, the number's digits, and the number."""
    match = _HOST.fullmatch(host)
    return (match.group(1), len(match.group(2)), int(match.group(2))) if match else (host, 0, 0)


def _status(attempt: Attempt) -> str:
    if attempt.running:
        return "running"
    if attempt.status is None:
        return "ended without a record"
    said = attempt.status.replace("_", " ")
    return f"{said} ({attempt.fault})" if attempt.fault else said


def _first_failure(failure: FirstFailure) -> str:
    ending = visible_text(" ".join(failure.ending.split()))[:_LONGEST_ENDING]
    return f"first failure: rank {failure.rank} on {visible_text(failure.host)} {ending}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _duration(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 2 * 86400 else format_seconds(seconds)
