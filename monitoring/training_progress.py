"""Report a training's progress from the end of metrics.jsonl, its last segments and its newest checkpoint.

Older records and the files of older segments are not read, so the time that this takes hardly depends on the length of
the training.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import median

from bloomery.base.errors import InputError
from bloomery.base.process_alive import alive_since
from bloomery.config.stages import TokenizerStage, TrainStage, read_stage
from bloomery.contracts.checkpoint import MANIFEST_NAME, read_checkpoint, step_folders
from bloomery.contracts.lease import read_holder
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord, MetricsRecord, ValidationRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import read_tail
from bloomery.contracts.segment import Segment, read_segment
from bloomery.contracts.train_stage import read_effective
from bloomery.detect.speed import speed_of
from bloomery.spec.batch import samples_of_time
from bloomery.spec.checkpoint_size import checkpoint_size
from bloomery.spec.parameters import padded_vocabulary
from bloomery.spec.position import Position
from bloomery.spec.trajectory import Trajectory, trajectory

_RECENT = 50
_SEGMENTS_SHOWN = 3
_EVENTS_SHOWN = 3
_ATTEMPTS_TRIED = 3
_NUMBERED = re.compile(r"[0-9]{1,9}\.json")


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training."""

    iteration: int
    total_iterations: int
    consumed_samples: int
    samples: int
    consumed_tokens: int
    tokens: int
    global_batch_size: int
    loss: float | None
    """Loss of the last iteration; None if it was not finite."""
    grad_norm: float | None
    """Gradient norm of the last iteration; None if it was not finite."""
    validation_loss: float | None
    """Mean loss over the sets in the newest validation; None if it is not among the last records or not finite."""
    validation_sets: int
    """Number of sets in the newest validation; 0 if no validation is among the last records."""
    validation_iteration: int
    """Iteration after which the newest validation ran; 0 if no validation is among the last records."""
    skipped_samples: int
    """Number of samples that were consumed but not trained on."""
    skipped_updates: int
    """Number of iterations that did not change the weights."""
    non_finite: int
    """Number of iterations whose loss or gradient was not finite."""
    events: list[EventRecord]
    """Latest detections and actions of guards, newest last."""
    energy: EnergyRecord | None
    """Energy of the newest segment so far; None if it is not among the last records."""
    tflops_hardware: float
    """TFLOP/s of one device, including recomputation, over the last `speed_iterations` iterations."""
    mfu: float | None
    """Model FLOPs utilization over the last `speed_iterations` iterations; None if the device's peak is not
    configured."""
    fastest_rank: int | None
    fastest_seconds: float | None
    """Computing time of the fastest rank in the last iteration, in seconds."""
    slowest_rank: int | None
    slowest_seconds: float | None
    """Computing time of the slowest rank in the last iteration, in seconds."""
    tokens_per_second: float
    """Tokens per second of all devices together: tokens of the last `speed_iterations` iterations divided by the
    seconds of these iterations, without validations and saves."""
    speed_iterations: int
    """Number of iterations over which speed, TFLOP/s and MFU were computed."""
    seconds_left: float
    """Remaining time of the iterations in seconds, at the median pace of the last iterations, without starts, saves,
    validations and waiting in a queue."""
    time: str
    """Time when the last iteration ended: UTC, ISO 8601."""
    age_seconds: float

    @property
    def share(self) -> float:
        """Share of the samples that the training has consumed."""
        return self.consumed_samples / self.samples if self.samples else 0.0


@dataclass(frozen=True)
class SegmentFacts:
    """Facts about one segment that has ended."""

    number: int
    status: str
    first_iteration: int
    iteration: int
    message: str


@dataclass(frozen=True)
class ChainFacts:
    """Facts about the chain of segments."""

    count: int
    newest: list[SegmentFacts]
    """The last segments of the chain."""
    last_attempt: SegmentFacts | None
    """The last attempt to train, which need not be part of the chain: it may have been stopped or have failed."""
    damaged: list[str]
    """Names of damaged files among those that were read, relative to the folder of segments."""


@dataclass(frozen=True)
class CheckpointFacts:
    """Facts about the newest complete checkpoint."""

    name: str
    iteration: int
    bytes: int
    age_seconds: float


@dataclass(frozen=True)
class TrainingProcess:
    """The process that holds the training's lease."""

    pid: int
    host: str
    job: str | None
    """SLURM job of the process; None if it is not in a job."""
    alive: bool | None
    """Whether the process still runs; None if it is on another machine."""


def progress(paths: RunPaths, stage: TrainStage, now: float) -> TrainingProgress | None:
    """Return the progress of the training; None before its first iteration. `now` is in seconds of the Unix epoch."""
    records = read_tail(paths.logs / "metrics.jsonl")
    recent = [record for record in records if isinstance(record, MetricsRecord)][-_RECENT:]
    if not recent:
        return None
    last, training = recent[-1], stage.training
    checks = [record for record in records if isinstance(record, ValidationRecord)]
    speed = speed_of(recent)
    run = trajectory(stage.model, training, Position.of(last))
    return TrainingProgress(
        iteration=last.iteration,
        total_iterations=run.iterations,
        consumed_samples=last.consumed_samples,
        samples=run.end.consumed_samples,
        consumed_tokens=last.consumed_tokens,
        tokens=run.end.consumed_tokens,
        global_batch_size=last.global_batch_size,
        loss=last.loss,
        grad_norm=last.grad_norm,
        validation_loss=checks[-1].validation_mean if checks else None,
        validation_sets=len(checks[-1].validation) if checks else 0,
        validation_iteration=checks[-1].iteration if checks else 0,
        skipped_samples=last.skipped_samples,
        skipped_updates=last.skipped_updates,
        non_finite=last.non_finite,
        events=[record for record in records if isinstance(record, EventRecord)][-_EVENTS_SHOWN:],
        energy=next((record for record in reversed(records) if isinstance(record, EnergyRecord)), None),
        tflops_hardware=speed.tflops_hardware,
        mfu=speed.mfu,
        fastest_rank=last.fastest_rank,
        fastest_seconds=last.fastest_seconds,
        slowest_rank=last.slowest_rank,
        slowest_seconds=last.slowest_seconds,
        tokens_per_second=speed.tokens_per_second,
        speed_iterations=speed.iterations,
        seconds_left=seconds_left(stage, run, recent),
        time=last.time,
        age_seconds=max(0.0, now - datetime.fromisoformat(last.time).timestamp()),
    )


def seconds_left(stage: TrainStage, rest: Trajectory, recent: list[MetricsRecord]) -> float:
    """Return the training time, in seconds, of the iterations in `rest` at the pace of the iterations in `recent`.

    `rest` begins after the last iteration of `recent`. The pace is the time that a pipeline stage takes to process one
    token, without the time in which the stage is idle. The idle time is added for each batch size (`samples_of_time`),
    because it is a larger share of the time with small batches. Otherwise the estimate would be too long during a
    ramp-up.
    """
    taken = partial(samples_of_time, stage.training.batch, stage.training.parallel)
    full = stage.model.sequence_length
    pace = median(
        record.seconds / taken(record.global_batch_size) / (record.sequence_length or full) for record in recent
    )
    return pace * sum(each.steps * taken(each.global_batch_size) * each.sequence_length for each in rest.stretches)


def chain(paths: RunPaths) -> ChainFacts:
    """Return the chain of segments. Only the files of the last segments are read. Damaged files are listed."""
    names = [path.name for path in paths.segments.glob("*.json") if _NUMBERED.fullmatch(path.name)]
    names.sort(key=lambda name: int(name.removesuffix(".json")))
    damaged: list[str] = []

    def read(name: str) -> SegmentFacts | None:
        try:
            return _facts(read_segment(paths.segments / name))
        except InputError:
            damaged.append(name)
            return None

    newest = [facts for name in names[-_SEGMENTS_SHOWN:] if (facts := read(name)) is not None]
    attempts = {path: path.stat().st_mtime for path in (paths.segments / "history").glob("*.json")}
    # If the file of the newest attempt is damaged, use the attempt before it.
    ordered = sorted(attempts, key=lambda path: attempts[path], reverse=True)[:_ATTEMPTS_TRIED]
    found = (read(f"history/{path.name}") for path in ordered)
    last = next((facts for facts in found if facts is not None), newest[-1] if newest else None)
    return ChainFacts(count=len(names), newest=newest, last_attempt=last, damaged=damaged)


def _facts(segment: Segment) -> SegmentFacts:
    return SegmentFacts(
        segment.number, segment.status.value, segment.first_iteration, segment.iteration, segment.message
    )


def newest_checkpoint(paths: RunPaths, now: float) -> CheckpointFacts | None:
    """Return the newest complete checkpoint, or None if no checkpoint is complete.

    Checkpoints that are incomplete, or that were removed during the call, are skipped.
    """
    for folder in step_folders(paths.checkpoints):
        try:
            manifest = read_checkpoint(folder)
            written = (folder / MANIFEST_NAME).stat().st_mtime
        except (InputError, FileNotFoundError):
            continue
        size = sum(entry.bytes for entry in manifest.files.values())
        return CheckpointFacts(folder.name, manifest.iteration, size, max(0.0, now - written))
    return None


def planned_checkpoint_bytes(paths: RunPaths, stage: TrainStage) -> int:
    """Compute the size of a checkpoint in bytes from the configuration, before any checkpoint exists."""
    entries = read_stage(paths.config / "tokenizer.json", TokenizerStage).tokenizer.vocabulary_size
    rows = padded_vocabulary(entries, stage.model, stage.training.parallel.tensor)
    return checkpoint_size(stage.model, stage.training, rows).total


def training_process(paths: RunPaths) -> TrainingProcess | None:
    """Return the process that holds the training's lease, or None if no process holds it."""
    held = read_holder(paths.train)
    if held is None:
        return None
    holder, since = held
    return TrainingProcess(holder.pid, holder.host, holder.job, alive_since(holder.pid, holder.host, since))


def is_finished(paths: RunPaths) -> bool:
    """Return whether finished.json records the end of the training."""
    return paths.finished.is_file()


def read_train_stage(paths: RunPaths) -> TrainStage:
    """Read the training's section of the configuration, including the samples that the run skips.

    Before the index is built, the length of a training that is stated in epochs is unknown, and `train_samples` is
    `UNKNOWN_SAMPLES`.

    Raises:
        InputError: the section is missing or damaged.
    """
    path = paths.config / "train.json"
    return read_effective(path, paths) if paths.index_manifest.exists() else read_stage(path, TrainStage)


def epoch_now() -> float:
    """Return the current time in seconds of the Unix epoch."""
    return time.time()
