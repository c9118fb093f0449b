"""Write the PULSE line: one line about a run at each look, which `grep PULSE` finds.

[2026-11-23T15:00:00Z] PULSE: my-run: training, iteration 512 of 9,600 (5.3 %), loss 3.21, ... time left 3 h 2 min
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from bloomery.base.atomic import explained
from bloomery.base.times import utc_text
from bloomery.base.units import format_count, format_seconds
from bloomery.contracts.paths import RunPaths
from monitoring.status import RunStatus, training_jobs

PULSE_NAME = "pulse.log"


def pulse_line(status: RunStatus, time: str, active: list[str]) -> str:
    """Return the line about a run.

    Args:
        status: the run's status.
        time: time of the look: UTC, ISO 8601.
        active: keys of the alerts that hold now.
    """
    parts = [status.state.value]
    if where := status.progress:
        parts.append(f"iteration {where.iteration:,} of {where.total_iterations:,} ({100 * where.share:.1f} %)")
        parts += [f"loss {where.loss:.4g}"] if where.loss is not None else []
        parts.append(f"{format_count(where.tokens_per_second).strip()} tokens/s")
        parts.append(f"last iteration {format_seconds(where.age_seconds)} ago")
    elif unfinished := [each for each in status.data if each.done < each.total]:
        parts.append(f"{unfinished[0].stage} {unfinished[0].done:,} of {unfinished[0].total:,}")
    parts.append(_queue(status))
    parts += [f"newest checkpoint {status.checkpoint.name}"] if status.checkpoint else []
    parts += [f"time left {format_seconds(status.progress.seconds_left)}"] if status.progress else []
    parts.append(f"alerts: {' '.join(active)}" if active else "no alerts")
    name = status.run.rstrip("/").rsplit("/", 1)[-1]
    return " ".join(f"[{time}] PULSE: {name}: {', '.join(parts)}".split())


def unknown_pulse(run: str, time: str, reason: str) -> str:
    """Return the line about a run whose state cannot be read."""
    return " ".join(f"[{time}] PULSE: {run}: state unknown. {reason}".split())


def _queue(status: RunStatus) -> str:
    queue = status.queue
    if queue.note:
        return f"queue unknown ({queue.note})" if queue.note.startswith("the scheduler") else "no jobs in a queue"
    running = sum(job.state != "PENDING" for job in queue.jobs)
    text = f"queue {running} running, {len(queue.jobs) - running} pending"
    starts = [job.start for job in training_jobs(queue.jobs) if job.state == "PENDING" and job.start]
    return text + (f", training expected to start at {starts[0]}" if starts else "")


def append_pulse(paths: RunPaths, line: str) -> None:
    """Append the line to logs/pulse.log of the run.

    Raises:
        ResourceError: the file cannot be written.
        TryAgainError: the disk or file server does not respond.
    """
    path = paths.run / "logs" / PULSE_NAME
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)


def time_text(now: float) -> str:
    """Return a time in seconds of the Unix epoch as UTC text."""
    return utc_text(datetime.fromtimestamp(now, UTC))
