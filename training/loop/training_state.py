"""The state of a training in progress on each rank, and the function that opens a training."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from bloomery.base.times import utc_now
from bloomery.checkpoint.embedding_rows import embedding_rows
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import newest_manifest, step_name
from bloomery.contracts.index import IndexManifest, array_entries, read_index_manifest, verify_array
from bloomery.contracts.metrics_record import MetricsRecord, Stamp, ValidationRecord, read_tail
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import SampleReader
from bloomery.detect.slow_rank import SlowRankDetector
from bloomery.spec.position import Position
from bloomery.spec.trajectory import trajectory
from training.checkpoint.checkpoint_manager import CheckpointManager
from training.checkpoint.collective_calls import from_rank_0
from training.checkpoint.reference_logits import reference_tokens
from training.guards.anomaly_guard import AnomalyGuard
from training.loop.build_engine import Trainer, build_trainer
from training.loop.compute_timer import ComputeTimer
from training.loop.control import NO_ENERGY, ControlPlane, Order, Poll, Report
from training.loop.energy import EnergyMeter
from training.loop.metrics_writer import MetricsWriter
from training.loop.peak_memory import peak_memory_bytes
from training.loop.segment_deadline import SegmentDeadline
from training.parallel.mesh import Mesh
from training.resume.policy import identity
from training.resume.roll_back import roll_backs

_RECORD_BYTES = 2048
"""Upper bound for the length of a line in metrics.jsonl."""


@dataclass(frozen=True)
class TrainingHistory:
    """History of the training before this segment, read by rank 0 and equal on every rank."""

    records: list[MetricsRecord]
    """Records of the last iterations, in order."""
    validated: int
    """Last iteration after which a validation was completed. 0 if no validation was completed."""
    roll_backs: int
    """Number of roll-backs by guards."""


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
    pending: float | None = None
    """`time.perf_counter()` at the start of the background save in progress. None if no such save is in progress."""

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

        With `wait`, the checkpoint is sealed on return. Otherwise, it is written while training continues.
        """
        if wait:
            self.finish_save()
        if self.saved is not None and self.saved[0] == self.position:
            return self.saved[1]
        started = time.perf_counter()
        name = self.checkpoints.save(self.position, wait=wait)
        self.deadline.note_save(time.perf_counter() - started)
        self.pending, self.saved = None if wait else started, (self.position, name)
        self.note(f"saved checkpoint {name}" if wait else f"checkpoint {name} is being written")
        return name

    def finish_save(self) -> None:
        """Wait for the background save in progress, if any, and seal its checkpoint. Collective."""
        if self.pending is not None:
            self.checkpoints.finish()
            # Count the whole duration, although training continued meanwhile: a segment waits for its last save.
            self.deadline.note_save(time.perf_counter() - self.pending)
            self.pending = None
            self.note("the checkpoint is written")

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

    `end` is the time at which the scheduler ends the job, in seconds of the Unix epoch. The segment saves and ends
    before that time.

    Raises:
        CheckFailedError: DeepSpeed built an engine that differs from the configuration, or every checkpoint is damaged.
        ConfigError: the checkpoint does not fit the layout, or the configuration cannot run on this machine.
        InputError: the index is missing or damaged.
    """
    training, index = stage.training, read_index_manifest(paths.index_manifest)
    from_rank_0(lambda: _verify_arrays(paths, index))
    limits = training.segment
    deadline = SegmentDeadline(limits.minutes, end, 60.0 * limits.margin_minutes, limits.iterations)
    control = ControlPlane(paths.control, mesh.device, deadline)
    reader = SampleReader(paths.index)
    # A resumed training keeps the checkpoint's number of embedding rows on every layout.
    newest = from_rank_0(lambda: newest_manifest(paths.checkpoints))
    rows = embedding_rows(newest, index.vocabulary_size, stage.model, training.parallel.tensor)
    trainer = build_trainer(stage, mesh, rows)
    own = identity(stage, index)
    tokens = reference_tokens(reader, index.sequence_length)
    checkpoints = CheckpointManager(trainer, paths.checkpoints, own, index, tokens)
    position = checkpoints.load()
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
        anomalies=AnomalyGuard(training.guards, past.records, past.roll_backs, training.loss_scale.minimum),
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


def _verify_arrays(paths: RunPaths, index: IndexManifest) -> None:
    """Verify the hashes of the index arrays. The arrays take 6 GB for BLOOM's 166.8 M samples.

    The token files are not hashed here. `bloomery index verify` hashes them.
    """
    for entry in array_entries(index):
        verify_array(paths.index, entry)


def _past(stage: TrainStage, paths: RunPaths, position: Position) -> TrainingHistory:
    """Read the history of the training on rank 0 and send it to every rank, so that all ranks use the same history."""

    def read() -> TrainingHistory:
        guards = stage.training.guards
        wanted = guards.roll_back_iterations + guards.max_skipped_updates + 2
        if guards.spike is not None:
            # The spike detector skips non-finite values, so its window may cover more iterations than its length.
            wanted = max(wanted, 2 * guards.spike.window_iterations)
        # The file may end with records from after the checkpoint, whose iterations are repeated now. So read more.
        lines = read_tail(paths.logs / "metrics.jsonl", limit=_RECORD_BYTES * 4 * (wanted + 64))
        steps = {r.iteration: r for r in lines if isinstance(r, MetricsRecord) and r.iteration <= position.iteration}
        validated = [r.iteration for r in lines if isinstance(r, ValidationRecord)]
        return TrainingHistory(
            records=[steps[iteration] for iteration in sorted(steps)][-wanted:],
            validated=max((i for i in validated if i <= position.iteration), default=0),
            roll_backs=roll_backs(paths),
        )

    return from_rank_0(read)


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
