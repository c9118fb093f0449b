"""The state of a training in progress on each rank, and the function that opens a training."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from bloomery.base.times import utc_now
from bloomery.base.units import format_seconds
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import newest_manifest, step_name
from bloomery.contracts.heartbeat import Place
from bloomery.contracts.hold_index import hold_index
from bloomery.contracts.index import array_entries, verify_array
from bloomery.contracts.index_manifest import IndexManifest, read_index_manifest
from bloomery.contracts.metrics_record import MetricsRecord, Stamp, ValidationRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import newest_records
from bloomery.contracts.resume_policy import identity
from bloomery.contracts.sample_reader import SampleReader
from bloomery.detect.slow_rank import SlowRankDetector
from bloomery.spec.position import Position
from bloomery.spec.trajectory import trajectory
from training.checkpoint.checkpoint_manager import CheckpointManager
from training.checkpoint.collective_calls import from_rank_0
from training.checkpoint.load_initial_weights import load_initial_weights
from training.checkpoint.randomness import random_states
from training.checkpoint.reference_logits import reference_samples
from training.guards.anomaly_guard import AnomalyGuard, past_iterations
from training.guards.replicas import check_replicas
from training.loop.build_engine import Trainer, build_trainer, draw_initial_weights
from training.loop.compute_timer import ComputeTimer
from training.loop.control import NO_ENERGY, ControlPlane, Order, Poll, Report
from training.loop.energy import EnergyMeter
from training.loop.metrics_writer import MetricsWriter
from training.loop.peak_memory import peak_memory_bytes
from training.loop.rank_progress import PROGRESS
from training.loop.segment_deadline import SegmentDeadline
from training.parallel.mesh import Mesh
from training.resume.roll_back import roll_backs


@dataclass(frozen=True)
class TrainingHistory:
    """History of the training before this segment, read by rank 0 and equal on every rank."""

    records: list[MetricsRecord]
    """Records of the last iterations, in order."""
    validated: int
    """Last iteration after which a validation was completed. 0 if no validation was completed."""
    roll_backs: int
    """Number of roll-backs by guards."""


@dataclass(frozen=True)
class BackgroundSave:
    """A save that is in progress while training continues."""

    name: str
    """Name of the checkpoint."""
    started: float
    """`time.perf_counter()` at the start of the save."""
    waited_seconds: float
    """Seconds that the training waited while the state was copied."""


@dataclass
class TrainingState:
    """State of a training in progress."""

    trainer: Trainer
    reader: SampleReader
    index: IndexManifest
    paths: RunPaths
    identity: str
    number: int
    """Number of the segment."""
    position: Position
    total_iterations: int
    checkpoints: CheckpointManager
    anomalies: AnomalyGuard
    deadline: SegmentDeadline
    control: ControlPlane
    compute_timer: ComputeTimer
    slow_ranks: SlowRankDetector
    energy: EnergyMeter | None
    metrics: MetricsWriter | None
    """Writer of the metrics on rank 0. None on other ranks."""
    validated: int
    """Last iteration after which a validation was completed. 0 if no validation was completed."""
    first_iteration: int = field(init=False)
    """First iteration of this segment."""
    micro_batch_shape: tuple[int, int] | None = None
    """Number of samples and sequence length of the micro-batches for which the buffers between stages were made. None
    if there are no such buffers."""
    saved: tuple[Position, str] | None = None
    """Position and name of the checkpoint that was saved or loaded last. None if there is no checkpoint."""
    pending: BackgroundSave | None = None
    """The background save in progress. None if no such save is in progress."""
    save_seconds: float = 0.0
    """Seconds that the training has waited for saves since the last record of an iteration."""

    def __post_init__(self) -> None:
        self.first_iteration = self.position.iteration + 1
        if self.position.iteration:
            self.saved = (self.position, step_name(self.position.iteration))

    def stamp(self) -> Stamp:
        """Return the current position and time, for a record."""
        at = self.position
        return Stamp(
            iteration=at.iteration,
            consumed_samples=at.consumed_samples,
            consumed_tokens=at.consumed_tokens,
            segment=self.number,
            time=utc_now(),
        )

    @property
    def progressed(self) -> bool:
        """Whether this segment has run at least one iteration."""
        return self.position.iteration >= self.first_iteration

    def poll(self, verdict: Order = Order.GO, work_seconds: float = 0.0) -> Poll:
        """Make a control poll. Finish a background save that every rank has written by now. Collective."""
        energy = self.energy.reading() if self.energy is not None else NO_ENERGY
        memory = peak_memory_bytes(self.trainer.mesh.device)
        poll = self.control.poll(Report(verdict, work_seconds, self.checkpoints.written_here, energy, memory))
        if self.pending is not None and poll.written:
            self.finish_save()
        return poll

    def save(self, *, wait: bool = True) -> str:
        """Save a checkpoint at the current position and return the name of its folder. Collective.

        With `wait`, the checkpoint is sealed on return. Otherwise, it is written while training continues. All replicas
        are compared first, so the state of a checkpoint has equal copies.

        Raises:
            DriftError: replicas differ, so the state must not be saved.
            ResourceError: the disk has too little space, or a rank could not write.
        """
        is_saved = self.saved is not None and self.saved[0] == self.position
        if wait or not is_saved:
            self.finish_save()
        if self.saved is not None and is_saved:
            return self.saved[1]
        self.check_replicas()
        started = time.perf_counter()
        with PROGRESS.during(Place.SAVING):
            name = self.checkpoints.save(self.position, wait=wait)
        seconds = time.perf_counter() - started
        self.deadline.note_save(seconds)
        self.save_seconds += seconds
        self.pending, self.saved = None if wait else BackgroundSave(name, started, seconds), (self.position, name)
        said = f"saved checkpoint {name}" if wait else f"checkpoint {name} is being written"
        self.note(f"{said}; training waited {format_seconds(seconds)}")
        return name

    def check_replicas(self) -> None:
        """Compare all replicas of the state in memory. Collective. Raises DriftError if replicas differ."""
        check_replicas(self.trainer, random_states(self.trainer.mesh.device), self.position.iteration)

    def finish_save(self) -> None:
        """Wait for the background save in progress, if any, and seal its checkpoint. Collective."""
        if self.pending is not None:
            started, save = time.perf_counter(), self.pending
            with PROGRESS.during(Place.SAVING):
                self.checkpoints.finish()
            ended = time.perf_counter()
            # Count the whole duration, although training continued meanwhile: a segment waits for its last save.
            self.deadline.note_save(ended - save.started)
            self.save_seconds += ended - started
            self.pending = None
            waited = format_seconds(save.waited_seconds + ended - started)
            self.note(
                f"checkpoint {save.name} was written in {format_seconds(ended - save.started)}; training waited "
                f"{waited}"
            )

    def take_save_seconds(self) -> float | None:
        """Return the seconds that the training waited for saves since the last call, or None without a save."""
        seconds, self.save_seconds = self.save_seconds, 0.0
        return seconds or None

    def note(self, text: str) -> None:
        """Write a message to the log. Only rank 0 writes."""
        if self.metrics is not None:
            self.metrics.note(text)

    def close(self) -> None:
        """Stop the energy meter and close the metrics files of this rank."""
        if self.energy is not None:
            self.energy.stop()
        if self.metrics is not None:
            self.metrics.close()


def open_training(
    stage: TrainStage, mesh: Mesh, paths: RunPaths, number: int, end: float | None = None
) -> TrainingState:
    """Build the training for segment `number` and load the newest good checkpoint. Collective.

    Initial weights are drawn only if no checkpoint is loaded.

    `end` is the time at which the scheduler ends the job, in seconds of the Unix epoch. The segment saves and ends
    before that time.

    Raises:
        CheckFailedError: DeepSpeed built an engine that differs from the configuration, or every checkpoint is damaged.
        ConfigError: the checkpoint does not fit the layout, or the configuration cannot run on this machine.
        InputError: the index is missing or damaged.
        TryAgainError: the index was replaced repeatedly while it was opened.
    """
    training, folder = stage.training, from_rank_0(lambda: hold_index(paths))
    index = read_index_manifest(folder / "index.json")
    from_rank_0(lambda: _verify_arrays(folder, index))
    limits = training.segment
    deadline = SegmentDeadline(limits.minutes, end, 60.0 * limits.margin_minutes, limits.iterations)
    control = ControlPlane(paths.control, mesh.device, deadline)
    reader = SampleReader(folder)
    # A resumed training keeps the checkpoint's number of embedding rows on every layout.
    newest = from_rank_0(lambda: newest_manifest(paths.checkpoints))
    rows = embedding_rows(newest, index.vocabulary_size, stage.model, training.parallel.tensor)
    trainer = build_trainer(stage, mesh, rows, with_initial_weights=False)
    own = identity(stage, index)
    samples = reference_samples(reader, index.sequence_length)
    checkpoints = CheckpointManager(trainer, paths.checkpoints, own, index, samples)
    position = checkpoints.load(lambda iteration: check_replicas(trainer, random_states(mesh.device), iteration))
    if not checkpoints.has_loaded:
        if training.initial_checkpoint is None:
            draw_initial_weights(trainer)
        else:
            load_initial_weights(trainer, training.initial_checkpoint, index)
    past = _past(stage, paths, position)
    state = TrainingState(
        trainer=trainer,
        reader=reader,
        index=index,
        paths=paths,
        identity=own,
        number=number,
        position=position,
        total_iterations=trajectory(stage.model, training, position).iterations,
        checkpoints=checkpoints,
        anomalies=AnomalyGuard(
            training.guards,
            past.records,
            past.roll_backs,
            training.loss_scale.minimum,
            [entry.from_sample for entry in index.stages[1:]],
        ),
        deadline=deadline,
        control=control,
        compute_timer=ComputeTimer(trainer.engine, mesh.device),
        slow_ranks=SlowRankDetector(_peers(mesh)),
        energy=None if training.energy is None else EnergyMeter(training.energy, _local_rank()),
        metrics=_writer(paths, position) if mesh.rank == 0 else None,
        validated=past.validated,
    )
    trainer.gate.decide = state.anomalies.leaves_out
    return state


def _verify_arrays(folder: Path, index: IndexManifest) -> None:
    """Verify the hashes of the index arrays. The arrays take 6 GB for BLOOM's 166.8 M samples.

    The token files are not hashed here. `bloomery index verify` hashes them.
    """
    for entry in array_entries(index):
        verify_array(folder, entry)


def _past(stage: TrainStage, paths: RunPaths, position: Position) -> TrainingHistory:
    """Read the history of the training on rank 0 and send it to every rank, so that all ranks use the same history."""

    def read() -> TrainingHistory:
        steps, validated = _past_records(
            paths.logs / "metrics.jsonl", position.iteration, past_iterations(stage.training.guards)
        )
        return TrainingHistory(records=steps, validated=validated, roll_backs=roll_backs(paths))

    return from_rank_0(read)


def _past_records(path: Path, last: int, count: int) -> tuple[list[MetricsRecord], int]:
    """Return the records of the `count` iterations up to iteration `last`, in order, and the last validated iteration.

    The file may contain several attempts: after a crash or a roll-back, iterations are repeated. The newest record of
    an iteration counts. The file is read from its end only as far as necessary.
    """
    steps: dict[int, MetricsRecord] = {}
    validated = 0
    for record in newest_records(path):
        if record.iteration > last:
            # The training repeats this iteration.
            continue
        if isinstance(record, ValidationRecord):
            validated = max(validated, record.iteration)
        elif isinstance(record, MetricsRecord):
            steps.setdefault(record.iteration, record)
            # An attempt has successive iterations, so all later iterations have been read already.
            if record.iteration <= last - count + 1:
                break
    return [steps[iteration] for iteration in sorted(steps)], validated


def _local_rank() -> int:
    """Return the local rank of this process on its node, from torchrun's environment."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def _peers(mesh: Mesh) -> list[list[int]]:
    """Return the ranks of each pipeline stage. All ranks of a stage have equal work."""
    parallel = mesh.parallel
    return [
        [mesh.rank_of(pipeline=s, data=d, tensor=t) for d in range(parallel.data) for t in range(parallel.tensor)]
        for s in range(parallel.pipeline)
    ]


def _writer(paths: RunPaths, position: Position) -> MetricsWriter:
    """Open the metrics writer at the given position."""
    return MetricsWriter(
        paths.logs,
        iteration=position.iteration,
        consumed_samples=position.consumed_samples,
        consumed_tokens=position.consumed_tokens,
    )
