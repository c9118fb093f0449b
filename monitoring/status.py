"""Gather the status of a run from its files, and from SLURM's queue if there is one.

This module writes no files and takes no locks.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, InputError
from bloomery.base.process_alive import alive_since
from bloomery.base.times import utc_text
from bloomery.contracts.excluded_nodes import read_excluded
from bloomery.contracts.parity import PARITY_NAME
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.segment import SegmentStatus
from bloomery.contracts.stale_artefacts import find_stale
from bloomery.orchestration.prepare_run import PARTS_NAME, TOKEN_FILES_NAME
from bloomery.orchestration.run_lock import LOCK_NAME, holder
from bloomery.orchestration.slurm_jobs import TRAINING_RULE, jobs_alive, workflow_names
from bloomery.orchestration.workflow_command import read_command, rebuild_command, rebuild_target
from monitoring.shared_rows import report_pages
from monitoring.sync_state import read_sync
from monitoring.timeline import Timeline, read_timeline
from monitoring.training_progress import (
    ChainFacts,
    CheckpointFacts,
    TrainingProcess,
    TrainingProgress,
    chain,
    is_finished,
    newest_checkpoint,
    planned_checkpoint_bytes,
    progress,
    read_train_stage,
    training_process,
)


class RunState(StrEnum):
    """Current activity of a run."""

    PREPARING = "preparing data"
    TRAINING = "training"
    QUEUED = "waiting in the queue to train"
    BETWEEN = "between two segments"
    DELIVERING = "trained; exporting"
    FINISHED = "finished"
    STOPPED = "stopped"


@dataclass(frozen=True)
class StageCount:
    """Number of shards that a stage has finished."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class Workflow:
    """The workflow that last took the lock of the run."""

    pid: int
    host: str
    command: str
    alive: bool | None
    """Whether the workflow still runs; None if it is on another machine."""


@dataclass(frozen=True)
class Job:
    """A job of this run in the queue."""

    job: str
    rule: str
    state: str
    seconds_left: float | None
    nodes: int
    reason: str
    """Reason why a pending job waits, or the nodes of a running job."""
    start: str
    """Time when the job started or is expected to start: UTC, ISO 8601; empty if unknown."""
    submitted: str = ""
    """Time when the job was submitted: UTC, ISO 8601; empty if unknown."""


@dataclass(frozen=True)
class Queue:
    """The run's jobs in SLURM's queue. The state of the run also depends on its files, because the queue may be
    unknown."""

    note: str
    """Reason why the jobs are unknown or absent; empty if the scheduler answered."""
    jobs: list[Job]


@dataclass(frozen=True)
class Exclusion:
    """A node of the cluster that the next segments exclude."""

    host: str
    until: str
    """Time when the exclusion ends: UTC, ISO 8601."""
    reason: str


@dataclass(frozen=True)
class Sync:
    """State of the logs on the Hub."""

    repository: str | None
    synced: str | None
    """Time of the last successful sync: UTC, ISO 8601."""
    age_seconds: float | None
    failures: int
    """Number of failures in a row since the last successful sync."""
    error: str | None


@dataclass(frozen=True)
class DiskSpace:
    """Free space on the file system of the run, without regard to quotas."""

    free_bytes: int
    checkpoint_bytes: int
    checkpoints_fit: int


@dataclass(frozen=True)
class RunStatus:
    """Everything that is known about a run at one time."""

    run: str
    state: RunState
    workflow: Workflow | None
    data: list[StageCount]
    progress: TrainingProgress | None
    segments: ChainFacts
    trainer: TrainingProcess | None
    queue: Queue
    checkpoint: CheckpointFacts | None
    sync: Sync | None
    disk: DiskSpace
    models: list[str]
    """Names of the exported models."""
    published: bool
    timeline: Timeline
    """All attempts to train, and what the time since the first attempt was used for."""
    excluded: list[Exclusion] | None = field(default_factory=list)
    """Nodes of the cluster that the next segments exclude; None if their file is damaged."""
    resume_command: str | None = None
    """Command of the newest workflow, as a user can type it here; None if no workflow recorded it for this folder."""
    stale: dict[str, str] = field(default_factory=dict)
    """What each stale artefact is older than, such as `the corpus` (`bloomery.contracts.stale_artefacts`)."""
    rebuild_command: str | None = None
    """Command that builds all stale artefacts again; None if nothing is stale, or if the record of the newest workflow
    is missing or is about a run in another folder."""
    rebuild_target: str | None = None
    """Target of the workflow that builds all stale artefacts again; None if nothing is stale."""
    reports: dict[str, str] = field(default_factory=dict)
    """Path of each report's page by the name of the report: `corpus`, `tokenizer`, `training`."""
    unreadable: list[str] = field(default_factory=list)
    """Files that cannot be read. Artefacts that depend on these files may be stale without being listed in `stale`."""


def find_runs(root: Path) -> list[Path]:
    """Return the folders of the runs in `root`, most recently active first."""
    runs = [path.parent.parent for path in root.glob(f"*/config/{PARTS_NAME}")]
    return sorted(runs, key=_touched, reverse=True)


def _touched(run: Path) -> float:
    paths = RunPaths(run)
    marks = (paths.config / PARTS_NAME, run / LOCK_NAME, paths.logs / "metrics.jsonl", paths.segments)
    return max(mark.stat().st_mtime for mark in marks if mark.exists())


def gather_status(run: Path, now: float) -> RunStatus:
    """Return the status of the run in the folder `run` at the time `now`, in seconds of the Unix epoch.

    Raises:
        InputError: a file of the run is damaged, or the run has no configuration.
    """
    paths = RunPaths(run)
    stage = read_train_stage(paths)
    queue, segments, held = _queue(paths), chain(paths), training_process(paths)
    workflow, checkpoint = _workflow(run), newest_checkpoint(paths, now)
    where = progress(paths, stage, now)
    models = sorted(path.parent.name for path in paths.export.glob(f"*/{PARITY_NAME}"))
    published = (paths.published / "publish.json").is_file()
    size = checkpoint.bytes if checkpoint and checkpoint.bytes else planned_checkpoint_bytes(paths, stage)
    free = shutil.disk_usage(run).free
    found = find_stale(paths)
    stale = found.stale
    begun = where is not None or segments.last_attempt is not None
    state = _state(paths, queue, held, workflow, segments, begun=begun, published=published)
    return RunStatus(
        run=run.as_posix(),
        state=state,
        workflow=workflow,
        data=[] if begun else _data(paths),
        progress=where,
        segments=segments,
        trainer=held,
        queue=queue,
        checkpoint=checkpoint,
        sync=_sync(paths, now),
        disk=DiskSpace(free, size, free // max(1, size)),
        models=models,
        published=published,
        timeline=_timeline(paths, now, state, queue),
        resume_command=read_command(paths),
        stale={name: each.older_than for name, each in stale.items()},
        rebuild_command=rebuild_command(paths, stale),
        rebuild_target=rebuild_target(stale),
        reports=report_pages(paths),
        unreadable=found.unreadable_files,
        excluded=_excluded(paths, now),
    )


def _state(
    paths: RunPaths,
    queue: Queue,
    held: TrainingProcess | None,
    workflow: Workflow | None,
    segments: ChainFacts,
    *,
    begun: bool,
    published: bool,
) -> RunState:
    # Check jobs and lease before finished.json, which remains while a changed configuration trains again.
    training = {job.state for job in queue.jobs if job.rule == TRAINING_RULE}
    if training - {"PENDING"} or _trains(held, queue):
        return RunState.TRAINING
    if training:
        return RunState.QUEUED
    last = segments.last_attempt
    if not (queue.jobs or (workflow is not None and workflow.alive is True)):
        ended = last is None or last.status == SegmentStatus.FINISHED
        return RunState.FINISHED if ended and is_finished(paths) else RunState.STOPPED
    # finished.json is written shortly after the last segment's file, so check the last segment's file here.
    if last is not None and last.status == SegmentStatus.FINISHED:
        return RunState.FINISHED if published else RunState.DELIVERING
    return RunState.BETWEEN if begun else RunState.PREPARING


def _trains(held: TrainingProcess | None, queue: Queue) -> bool:
    """Return whether the holder of the lease is training.

    A holder on another machine counts as training if its job is in the queue. If it has no job, or if the queue is
    unknown, it also counts as training.
    """
    if held is None:
        return False
    if held.alive is not None:
        return held.alive
    if held.job is not None and not queue.note:
        return any(job.job == held.job for job in queue.jobs)
    return True


def _workflow(run: Path) -> Workflow | None:
    found = holder(run)
    if found is None:
        return None
    alive = alive_since(found.pid, found.host, (run / LOCK_NAME).stat().st_mtime)
    return Workflow(found.pid, found.host, found.command, alive)


def _queue(paths: RunPaths) -> Queue:
    if not workflow_names(paths):
        return Queue("no job of this run was sent to SLURM", [])
    if not slurm.has_slurm():
        return Queue("SLURM is not on this machine", [])
    try:
        alive = jobs_alive(paths)
    except BloomeryError as error:
        return Queue(f"the scheduler does not answer ({error.what.splitlines()[0]})", [])
    alive.sort(key=lambda job: (job.state == "PENDING", job.job))
    return Queue("", [_job(job) for job in alive])


def _job(job: slurm.QueuedJob) -> Job:
    start, submitted = (
        "" if moment is None else utc_text(moment)
        for moment in (slurm.parse_time(job.start), slurm.parse_time(job.submitted))
    )
    return Job(job.job, job.rule, job.state, job.time_left, job.nodes, job.reason.strip("()"), start, submitted)


def _excluded(paths: RunPaths, now: float) -> list[Exclusion] | None:
    """Return the excluded nodes; None if their file is damaged."""
    try:
        nodes = read_excluded(paths, datetime.fromtimestamp(now, UTC))
    except InputError:
        return None
    return [Exclusion(node.host, utc_text(node.until), node.reason) for node in nodes]


def _timeline(paths: RunPaths, now: float, state: RunState, queue: Queue) -> Timeline:
    pending = [job.submitted for job in queue.jobs if job.rule == TRAINING_RULE and job.state == "PENDING"]
    times = [datetime.fromisoformat(text).timestamp() for text in pending if text]
    return read_timeline(
        paths,
        now,
        running=state is RunState.TRAINING,
        queued_since=min(times, default=None),
        finished=state in (RunState.FINISHED, RunState.DELIVERING),
    )


def _data(paths: RunPaths) -> list[StageCount]:
    """Count the shards that each data stage has finished, by listing one folder per stage and source."""
    parts = set(read_part_names(paths.config / PARTS_NAME))
    listing = paths.config / TOKEN_FILES_NAME
    pairs = set(read_part_names(listing)) if listing.exists() else parts
    folders = {
        "ingest": (paths.corpus / "raw", ".json"),
        "measure": (paths.corpus / "measures", ".json"),
        "judge": (paths.corpus / "verdicts", ".json"),
        "clean": (paths.corpus / "clean", ".json"),
        "count": (paths.tokenizer / "counts", ".json"),
    }
    counts = [StageCount(stage, _done(*place, parts), len(parts)) for stage, place in folders.items() if parts]
    return [
        *counts,
        StageCount("tokenizer", int((paths.tokenizer / "tokenizer.json").is_file()), 1),
        StageCount("encode", _done(paths.index / "tokens", ".idx", pairs), len(pairs)),
        StageCount("index", int((paths.index / "verified.json").is_file()), 1),
    ]


def _done(folder: Path, suffix: str, names: set[str]) -> int:
    """Count the files of `names` that exist in `folder`."""
    sources = {name.rsplit("/", 1)[0] for name in names}
    return sum(len(_shards(folder, source, suffix) & names) for source in sources)


def _shards(folder: Path, source: str, suffix: str) -> set[str]:
    try:
        names = [path.name for path in (folder / source).iterdir()]
    except FileNotFoundError:
        return set()
    return {f"{source}/{name.removesuffix(suffix)}" for name in names if name.endswith(suffix)}


def _sync(paths: RunPaths, now: float) -> Sync | None:
    """Return the state of the logs on the Hub; None before the first sync."""
    if not paths.sync_state.exists():
        return None
    state = read_sync(paths.sync_state)
    age = max(0.0, now - datetime.fromisoformat(state.synced).timestamp()) if state.synced else None
    return Sync(state.repository, state.synced, age, state.failures, state.error)


def jobs_by_rule(jobs: list[Job]) -> dict[str, Counter[str]]:
    """Count the data jobs by rule and state. Training jobs are not counted; `training_jobs` returns them."""
    counted: dict[str, Counter[str]] = {}
    for job in jobs:
        if job.rule != TRAINING_RULE:
            counted.setdefault(job.rule, Counter())[job.state] += 1
    return counted


def training_jobs(jobs: list[Job]) -> list[Job]:
    """Return the jobs that train."""
    return [job for job in jobs if job.rule == TRAINING_RULE]
