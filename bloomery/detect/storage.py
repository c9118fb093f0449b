"""Find problems with a run's files: an overdue checkpoint, a disk that will be full, and logs that are not synced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes, format_seconds
from bloomery.detect.finding import Finding, Kind, Severity
from bloomery.spec.save_points import is_for_good, saves_until

if TYPE_CHECKING:
    from bloomery.config.training_loop import CheckpointConfig

_DAY_SECONDS = 86_400.0


def next_save(checkpoint: CheckpointConfig, after: int, until: int) -> int | None:
    """Return the first iteration above `after` in which a checkpoint is due; None if none is due up to `until`."""
    done = saves_until(checkpoint, after)
    if saves_until(checkpoint, until) == done:
        return None
    low, high = after, until
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if saves_until(checkpoint, middle) == done else (low, middle)
    return high


def checkpoint_overdue(
    newest: str | None, due_iteration: int, overdue_seconds: float, checkpoint_minutes: float
) -> Finding | None:
    """Return a finding if a checkpoint is overdue.

    Args:
        newest: name of the newest complete checkpoint; None if no checkpoint is complete.
        due_iteration: iteration after which the next checkpoint was due.
        overdue_seconds: time since the end of that iteration.
        checkpoint_minutes: limit after which the checkpoint is reported, in minutes.
    """
    if overdue_seconds <= 60 * checkpoint_minutes:
        return None
    what = (
        f"The checkpoint of iteration {due_iteration} was due {format_seconds(overdue_seconds)} ago and is not "
        f"complete. The newest complete checkpoint is {newest or 'none'}."
    )
    return Finding(Kind.CHECKPOINT, Severity.WARNING, what)


@dataclass(frozen=True)
class DiskGrowth:
    """Forecast of the free space of a training's disk."""

    days_left: float | None
    """Days until the next file does not fit. None if all files of the training fit."""
    needed_bytes: int
    """Largest number of bytes that the training adds until `days_left`, or until its end if all files fit."""


def disk_growth(
    checkpoint: CheckpointConfig,
    *,
    iteration: int,
    last_iteration: int,
    seconds_per_iteration: float,
    free_bytes: int,
    checkpoint_bytes: int,
    checkpoints: int,
    log_bytes_per_iteration: float,
) -> DiskGrowth:
    """Forecast when the disk will be full.

    A new checkpoint is complete before an old one is removed. So the disk needs space for one more checkpoint than the
    training keeps.

    Args:
        checkpoint: settings of the checkpoints.
        iteration: last completed iteration.
        last_iteration: last iteration of the training.
        seconds_per_iteration: usual duration of an iteration.
        free_bytes: free space now.
        checkpoint_bytes: size of one checkpoint.
        checkpoints: number of complete checkpoints on the disk now.
        log_bytes_per_iteration: number of bytes by which all logs together grow in one iteration.
    """
    # Checkpoints that are never removed are kept in addition to the newest ones.
    extra, at, written = max(0, checkpoint.keep_last - checkpoints), iteration, 0
    used, most = 0.0, 0.0
    while (due := next_save(checkpoint, at, last_iteration)) is not None:
        logs = (due - iteration) * log_bytes_per_iteration
        most = max(most, used + checkpoint_bytes + logs)
        if used + checkpoint_bytes + logs > free_bytes:
            return DiskGrowth((due - iteration) * seconds_per_iteration / _DAY_SECONDS, round(most))
        written += 1
        if written <= extra or is_for_good(checkpoint, due):
            used += checkpoint_bytes
        at = due
    end_logs = (last_iteration - iteration) * log_bytes_per_iteration
    # The training saves a checkpoint at its end.
    most = max(most, used + checkpoint_bytes + end_logs)
    if most > free_bytes:
        return DiskGrowth((last_iteration - iteration) * seconds_per_iteration / _DAY_SECONDS, round(most))
    return DiskGrowth(None, round(most))


def disk_days_left(growth: DiskGrowth, free_bytes: int, disk_days: float) -> Finding | None:
    """Return a finding if the disk will be full within `disk_days` days."""
    days = growth.days_left
    if days is None or days > disk_days:
        return None
    severity = Severity.CRITICAL if days < 1 else Severity.WARNING
    what = (
        f"The disk of the run will be full in {format_seconds(days * _DAY_SECONDS)}, before the training ends. "
        f"{format_bytes(free_bytes)} are free, and checkpoints and logs until then need "
        f"{format_bytes(growth.needed_bytes)}."
    )
    return Finding(Kind.DISK, severity, what)


def sync_overdue(
    age_seconds: float | None, failures: int, error: str | None, *, sync_minutes: float, every_minutes: float
) -> Finding | None:
    """Return a finding if the logs were not synced for too long.

    Args:
        age_seconds: time since the last successful sync; None if no sync has succeeded.
        failures: number of failures in a row since then.
        error: message of the last failure.
        sync_minutes: limit after which the logs are reported, in minutes.
        every_minutes: usual time between two syncs.
    """
    limit = 60 * max(sync_minutes, 3 * every_minutes)
    if age_seconds is not None and age_seconds <= limit:
        return None
    if age_seconds is None and not failures:
        return None
    since = f"for {format_seconds(age_seconds)}" if age_seconds is not None else "at all"
    reason = f" Message of the last of {failures} failures: {error}" if failures and error else ""
    return Finding(
        Kind.SYNC,
        Severity.WARNING,
        f"The logs have not been synced to the Hub {since}.{reason}",
        # If no sync has ever succeeded, no file shows since when. So the condition must hold for this time.
        hold_seconds=limit if age_seconds is None else 0.0,
    )
