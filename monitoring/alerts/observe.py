"""Decide from the facts about a run which conditions hold now. Pure functions of `RunFacts`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from bloomery.config.training_loop import DivergenceConfig, SpikeConfig
from bloomery.contracts.segment import SegmentStatus
from bloomery.contracts.workflow_state import WorkflowState
from bloomery.detect import liveness, pace, storage
from bloomery.detect.finding import Finding, Kind, Severity
from bloomery.detect.numerics import LossScaleCollapse, NonFinite
from bloomery.detect.raised_loss import RaisedLoss, SpikeBurst
from bloomery.detect.validation_rise import validation_rises
from monitoring.alerts.facts import RunFacts, epoch
from monitoring.status import RunState

_RECENT = 64
"""Number of iterations whose median duration is the usual one."""
_QUEUE_KINDS = (Kind.IDLE, Kind.QUEUE_AGE)
_SILENT = "the scheduler does not answer"
"""Beginning of the note of `monitoring.status` if SLURM does not answer."""
_UNREADABLE_SECONDS = 300.0


@dataclass(frozen=True)
class Look:
    """Result of one look at a run."""

    findings: list[Finding]
    unknown: frozenset[Kind] = frozenset()
    """Kinds of conditions that could not be judged. Alerts of these kinds neither begin nor end."""
    ended: str = ""
    """Why no condition holds any more, as a sentence. Empty while the run continues."""


def unreadable(reason: str) -> Look:
    """Return the look at a run whose files cannot be read. `reason` is the message of the error."""
    what = f"The state of the run cannot be read: {reason}"
    finding = Finding(Kind.UNREADABLE, Severity.WARNING, what, hold_seconds=_UNREADABLE_SECONDS)
    return Look([finding], frozenset(Kind) - {Kind.UNREADABLE})


def observe(facts: RunFacts) -> Look:
    """Return the conditions that hold now."""
    status, attempt = facts.status, facts.attempt
    if status.state is RunState.FINISHED:
        return Look([], ended="The run has finished.")
    if status.state is RunState.STOPPED:
        by_attempt = attempt is not None and attempt.status is SegmentStatus.STOPPED
        if by_attempt or facts.stopped_by_person or facts.workflow is WorkflowState.STOPPED:
            return Look([], ended="A person stopped the run.")
        if facts.workflow is WorkflowState.FINISHED:
            # The target of the workflow may be a part of the run, such as the corpus.
            return Look([], ended="The workflow has built all that was requested.")
    if status.state is RunState.DELIVERING:
        return Look(_present([_sync(facts)]), ended="The training has finished.")
    unknown: set[Kind] = set()
    if status.queue.note.startswith(_SILENT):
        unknown |= set(_QUEUE_KINDS)
    if status.state is not RunState.TRAINING:
        # Without a running training, no new iteration shows whether these conditions continue.
        unknown |= {Kind.CHECKPOINT, Kind.DISK}
    checks: tuple[Callable[[RunFacts], Finding | None], ...] = (
        _stall,
        _checkpoint,
        _disk,
        _sync,
        _idle,
        _queue_age,
        _scheduler,
        _crash,
    )
    found = [check(facts) for check in checks]
    return Look(
        [
            *(each for each in _present(found) if each.kind not in unknown),
            *_of_records(facts),
            *validation_rises(facts.validations, facts.settings.limits.validation_rise),
        ],
        frozenset(unknown),
    )


def _present(found: Iterable[Finding | None]) -> list[Finding]:
    return [each for each in found if each is not None]


def _of_records(facts: RunFacts) -> list[Finding]:
    """Return the conditions that the records of the last iterations show."""
    limits, guards = facts.settings.limits, facts.train.training.guards
    detectors = (
        SpikeBurst(guards.spike or SpikeConfig(), limits.spike_iterations),
        RaisedLoss(guards.divergence or DivergenceConfig()),
        NonFinite(),
        LossScaleCollapse(limits.loss_scale_fall),
        pace.SlowTraining(limits.slower_by),
        pace.SlowestRank(limits.slow_rank_by),
    )
    for record in facts.records:
        for detector in detectors:
            detector.seen(record)
    return _present(detector.finding() for detector in detectors)


def _usual_seconds(facts: RunFacts) -> float:
    recent = facts.records[-_RECENT:]
    return median(record.seconds for record in recent) if recent else 0.0


def _stall(facts: RunFacts) -> Finding | None:
    if facts.status.state is not RunState.TRAINING:
        return None
    signs = [facts.trainer_started, facts.attempt_ended]
    signs += [epoch(facts.records[-1].time)] if facts.records else []
    signs += [epoch(facts.validations[-1].time)] if facts.validations else []
    signs += [facts.now - facts.status.checkpoint.age_seconds] if facts.status.checkpoint else []
    last = facts.records[-1].iteration if facts.records else 0
    return pace.stall(last, facts.now - max(signs), _usual_seconds(facts), facts.settings.limits.stall_minutes)


def _checkpoint(facts: RunFacts) -> Finding | None:
    newest = facts.status.checkpoint
    if not facts.records:
        return None
    last = facts.records[-1].iteration
    due = storage.next_save(facts.train.training.checkpoint, newest.iteration if newest else 0, last)
    if due is None:
        return None
    times = [epoch(record.time) for record in facts.records if record.iteration >= due]
    # If this segment began after the iteration, it must first repeat the iterations up to its next save.
    since = max(times[0], facts.trainer_started)
    # A training that makes no progress is reported as a stall.
    until = min(facts.now, epoch(facts.records[-1].time))
    return storage.checkpoint_overdue(
        newest.name if newest else None, due, until - since, facts.settings.limits.checkpoint_minutes
    )


def _disk(facts: RunFacts) -> Finding | None:
    where, disk = facts.status.progress, facts.status.disk
    if where is None:
        return None
    growth = storage.disk_growth(
        facts.train.training.checkpoint,
        iteration=where.iteration,
        last_iteration=where.total_iterations,
        seconds_per_iteration=where.seconds_left / max(1, where.total_iterations - where.iteration),
        free_bytes=disk.free_bytes,
        checkpoint_bytes=disk.checkpoint_bytes,
        checkpoints=facts.checkpoints,
        # main_log.txt and the TensorBoard files together grow about as much as metrics.jsonl.
        log_bytes_per_iteration=2 * facts.metrics_bytes / max(1, where.iteration),
    )
    return storage.disk_days_left(growth, disk.free_bytes, facts.settings.limits.disk_days)


def _sync(facts: RunFacts) -> Finding | None:
    sync = facts.status.sync
    if sync is None:
        return None
    limits = facts.settings.limits
    return storage.sync_overdue(
        sync.age_seconds,
        sync.failures,
        sync.error,
        sync_minutes=limits.sync_minutes,
        every_minutes=facts.every_sync_minutes,
    )


def _idle(facts: RunFacts) -> Finding | None:
    status, attempt = facts.status, facts.attempt
    if status.state not in (RunState.STOPPED, RunState.BETWEEN) or status.queue.jobs:
        return None
    reason = ""
    if attempt is not None and attempt.status in (SegmentStatus.CRASHED, SegmentStatus.FAILED):
        reason = f"The last attempt to train {attempt.status.value}: {' '.join(attempt.message.split())}"
    elif status.workflow is not None and status.workflow.alive is None:
        reason = f"This machine cannot see whether the workflow on {status.workflow.host} still runs."
    return liveness.idle(facts.now - facts.last_sign, facts.settings.limits.idle_minutes, reason)


def _queue_age(facts: RunFacts) -> Finding | None:
    if facts.status.state is not RunState.QUEUED:
        return None
    ages = {
        job.job: facts.now - facts.submitted[job.job] for job in facts.status.queue.jobs if job.job in facts.submitted
    }
    if not ages:
        return None
    oldest = max(ages, key=ages.__getitem__)
    reason = next(job.reason for job in facts.status.queue.jobs if job.job == oldest)
    return liveness.queue_age(oldest, ages[oldest], reason, facts.settings.limits.queue_hours)


def _scheduler(facts: RunFacts) -> Finding | None:
    note = facts.status.queue.note
    if not note.startswith(_SILENT):
        return None
    return liveness.scheduler_away(note, facts.settings.limits.scheduler_minutes)


def _crash(facts: RunFacts) -> Finding | None:
    """Return a finding if the crash budget is spent, or else if the training has not recovered from its last crash."""
    attempt, segment = facts.attempt, facts.train.training.segment
    crashed = attempt is not None and attempt.status is SegmentStatus.CRASHED
    newest = facts.status.checkpoint.name if facts.status.checkpoint else None
    # A newer checkpoint than that of the crashed segment resets the number of crashes.
    crashes = attempt.crashes if attempt is not None and crashed and attempt.checkpoint == newest else 0
    spent = liveness.crash_budget(crashes, segment.max_crashes, facts.starts, segment.max_restarts_without_progress)
    if spent is not None or attempt is None or not crashed:
        return spent
    continued = facts.records and epoch(facts.records[-1].time) > facts.attempt_ended
    return None if continued else liveness.crashed(attempt.number, attempt.iteration, attempt.message)
