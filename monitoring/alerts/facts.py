"""Gather the facts about a run from which alerts are raised: files, queue and configuration at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.atomic import read_json
from bloomery.base.errors import BloomeryError, InputError
from bloomery.config.alerts import AlertsConfig
from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import AlertsStage, TrainStage, read_stage
from bloomery.config.training_loop import DivergenceConfig
from bloomery.contracts.checkpoint import step_folders
from bloomery.contracts.lease import LEASE_NAME
from bloomery.contracts.metrics_record import EventRecord, MetricsRecord, ValidationRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import newest_records, newest_validations
from bloomery.contracts.segment import Segment, read_segment
from bloomery.contracts.workflow_state import WorkflowState, read_workflow
from bloomery.detect.divergence import DivergenceDetector
from bloomery.orchestration.run_lock import LOCK_NAME
from bloomery.orchestration.stop_mark import is_marked_stopped
from monitoring.status import RunStatus, gather_status, training_jobs
from monitoring.training_progress import read_train_stage

_LEAST_RECORDS = 1024
"""Number of records that the detectors need. The detector of divergence may need more."""
_VALIDATION_BYTES = 16 << 20
"""Bytes at the end of metrics.jsonl in which validations are searched. They contain about 25,000 iterations."""
_ATTEMPTS_TRIED = 3


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run at one moment. Times are in seconds of the Unix epoch."""

    now: float
    settings: AlertsConfig
    every_sync_minutes: float
    train: TrainStage
    status: RunStatus
    records: list[MetricsRecord]
    """Valid records of the last iterations, oldest first."""
    events: list[EventRecord]
    """Events of the guards among the last records, oldest first."""
    validations: list[ValidationRecord]
    """Valid validations, oldest first."""
    attempt: Segment | None
    """Record of the last attempt to train that ended."""
    attempt_ended: float
    """Time when the last attempt to train ended; 0 if there was none."""
    trainer_started: float
    """Time when the current launcher took the lease; 0 if the training does not run."""
    submitted: dict[str, float]
    """Time when each pending training job was submitted."""
    nodes: tuple[str, ...]
    """Nodes of the running training in the order of their ranks, or those of the last attempt."""
    starts: int
    """Number of starts of the training since the newest checkpoint."""
    checkpoints: int
    """Number of checkpoints on the disk."""
    metrics_bytes: int
    """Size of metrics.jsonl."""
    workflow: WorkflowState | None
    """State that the newest workflow recorded. None if no workflow recorded one."""
    stopped_by_person: bool
    """Whether a person asked the run to stop and has not resumed it since."""
    last_sign: float
    """Time of the newest sign of the workflow or the training."""


def read_settings(paths: RunPaths) -> AlertsStage:
    """Read the settings of the alerts. A run of an earlier version has none, and gets the default settings.

    Raises:
        InputError: the settings are damaged.
    """
    if not paths.alert_settings.exists():
        return AlertsStage(name=paths.run.name, alerts=AlertsConfig(), sync_minutes=PublishConfig().sync_minutes)
    return read_stage(paths.alert_settings, AlertsStage)


def gather_facts(paths: RunPaths, now: float, *, workflow_look: float = 0.0) -> RunFacts:
    """Return the facts about a run at the time `now`.

    `workflow_look` is the time of the last look by a watcher that a workflow started. Such a watcher ends with its
    workflow.

    Raises:
        BloomeryError: a file of the run is damaged, or cannot be read now.
    """
    settings, train = read_settings(paths), read_train_stage(paths)
    status = gather_status(paths.run, now)
    records, events = _records(paths, train)
    last = records[-1] if records else None
    attempt, ended = last_attempt(paths)
    lease = _modified(paths.train / LEASE_NAME) if status.trainer is not None else 0.0
    signs = (workflow_look, ended, lease, _modified(paths.run / LOCK_NAME), epoch(last.time) if last else 0.0)
    return RunFacts(
        now=now,
        settings=settings.alerts,
        every_sync_minutes=settings.sync_minutes,
        train=train,
        status=status,
        records=records,
        events=events,
        validations=_validations(paths, records),
        attempt=attempt,
        attempt_ended=ended,
        trainer_started=lease,
        submitted=_submitted(status),
        nodes=_nodes(status, attempt),
        starts=_starts(paths, status),
        checkpoints=len(step_folders(paths.checkpoints)),
        metrics_bytes=_size(paths.logs / "metrics.jsonl"),
        workflow=None if (record := read_workflow(paths)) is None else record.state,
        stopped_by_person=is_marked_stopped(paths),
        last_sign=max(signs),
    )


def epoch(time: str) -> float:
    """Return a time in ISO 8601 as seconds of the Unix epoch."""
    return datetime.fromisoformat(time).timestamp()


def last_attempt(paths: RunPaths) -> tuple[Segment | None, float]:
    """Return the record of the last attempt to train and the time when it ended; (None, 0) before the first end."""
    files = [*paths.segments.glob("history/*.json"), *paths.segments.glob("*.json")]
    ordered = sorted(((_modified(path), path) for path in files), reverse=True)
    for modified, path in ordered[:_ATTEMPTS_TRIED]:
        try:
            segment = read_segment(path)
        except InputError:
            continue
        return segment, epoch(segment.ended) if segment.ended else modified
    return None, 0.0


def _records(paths: RunPaths, train: TrainStage) -> tuple[list[MetricsRecord], list[EventRecord]]:
    """Return the valid records of the last iterations, and the events among them.

    A training that returns to a checkpoint writes records of the same iterations again. They replace the earlier ones.
    """
    divergence = train.training.guards.divergence or DivergenceConfig()
    count = max(_LEAST_RECORDS, DivergenceDetector.records_needed(divergence.window_iterations))
    steps: list[MetricsRecord] = []
    events: list[EventRecord] = []
    lowest: int | None = None
    for record in islice(newest_records(paths.logs / "metrics.jsonl"), 2 * count):
        if isinstance(record, EventRecord):
            events.append(record)
        elif isinstance(record, MetricsRecord) and (lowest is None or record.iteration < lowest):
            lowest = record.iteration
            steps.append(record)
            if len(steps) >= count:
                break
    return steps[::-1], events[::-1]


def _validations(paths: RunPaths, records: list[MetricsRecord]) -> list[ValidationRecord]:
    found: list[ValidationRecord] = []
    lowest = records[-1].iteration + 1 if records else 1
    for record in newest_validations(paths.logs / "metrics.jsonl", _VALIDATION_BYTES):
        if record.iteration < lowest:
            lowest = record.iteration
            found.append(record)
    return found[::-1]


def _submitted(status: RunStatus) -> dict[str, float]:
    """Return the time of submission of each pending training job whose time is known."""
    waiting = [job for job in training_jobs(status.queue.jobs) if job.state == "PENDING" and job.submitted]
    return {job.job: datetime.fromisoformat(job.submitted).timestamp() for job in waiting}


def _nodes(status: RunStatus, attempt: Segment | None) -> tuple[str, ...]:
    running = [job for job in training_jobs(status.queue.jobs) if job.state != "PENDING"]
    if running and running[0].reason:
        # squeue shows the nodes of a running job in the column that shows the reason of a pending job.
        try:
            return tuple(slurm.call("scontrol", "show", "hostnames", running[0].reason).split())
        except BloomeryError:
            return (running[0].reason,)
    if status.trainer is not None:
        return (status.trainer.host,)
    return attempt.nodes if attempt else ()


def _starts(paths: RunPaths, status: RunStatus) -> int:
    """Return the number of starts since the newest checkpoint (train/starts.json)."""
    try:
        value = read_json(paths.starts)
        newest, starts = value["newest_iteration"], value["starts"]
    except (BloomeryError, KeyError, TypeError):
        return 0
    iteration = status.checkpoint.iteration if status.checkpoint else None
    return starts if isinstance(starts, int) and newest == iteration else 0


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
