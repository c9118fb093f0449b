"""From an iteration and a rank to the samples that were read, and from a sample to its iteration and its replica.

The configuration of the training says it, by the functions that the training itself calls; metrics.jsonl says what was
trained. Where the two differ the configuration was changed since, and what was trained counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.config.stages import TrainStage, read_stage
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint, step_folders
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.prefix import prefix_differences, sample_prefix
from bloomery.contracts.record import find_step, last_records
from bloomery.plan.layout import Place, micro_batch_starts, place_of, replica_of
from bloomery.plan.trajectory import Trajectory, trajectory


@dataclass(frozen=True)
class Batch:
    """The samples of one iteration."""

    iteration: int
    first_sample: int
    samples: int
    planned_first_sample: int | None
    """By the configuration; None: the configured training has no such iteration."""
    planned_samples: int | None
    recorded: bool
    """Whether metrics.jsonl holds the iteration: first sample and samples are then the record's."""
    loss: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether metrics.jsonl and the configuration say the same; None when the iteration was not trained yet."""
        if not self.recorded:
            return None
        return (self.first_sample, self.samples) == (self.planned_first_sample, self.planned_samples)


@dataclass(frozen=True)
class Reader:
    """Who reads: one process, and the replica that it is part of."""

    rank: int
    place: Place
    holds_data: bool
    """First and last pipeline stages are fed samples; the stages between see activations only."""


@dataclass(frozen=True)
class Selection:
    """What is traced."""

    samples: Sequence[int]
    """Numbers in the training, or in the validation set."""
    validation: str | None = None
    batch: Batch | None = None
    reader: Reader | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """What of a training decides who reads what."""

    stage: TrainStage
    trajectory: Trajectory
    metrics: Path
    checkpoint: CheckpointManifest | None
    """The newest one, which says what was trained on."""

    @classmethod
    def of(cls, paths: RunPaths) -> Training:
        """The training of a run. Raises InputError."""
        stage = read_stage(paths.config / "train.json", TrainStage)
        newest = step_folders(paths.checkpoints)[:1]
        checkpoint = read_checkpoint(newest[0]) if newest else None
        return cls(stage, trajectory(stage.model, stage.training), paths.logs / "metrics.jsonl", checkpoint)

    def changes(self, index: IndexManifest) -> Iterator[str]:
        """What index and layout of today are not of those that the newest checkpoint was trained with."""
        saved = self.checkpoint
        if saved is None:
            return
        found = prefix_differences(saved.prefix, sample_prefix(index, saved.consumed_samples))
        if found:
            yield (
                f"the index was changed since iteration {saved.iteration} was saved ({'; '.join(found)}): "
                "these may not be the samples that were read"
            )
        parallel = self.stage.training.parallel
        before = (saved.tensor_parallel, saved.pipeline_parallel, saved.data_parallel)
        now = (parallel.tensor, parallel.pipeline, parallel.data)
        if before != now:
            sizes = [" x ".join(map(str, layout)) for layout in (before, now)]
            yield (
                f"iteration {saved.iteration} was saved by tensor x pipeline x data = {sizes[0]} processes, the "
                f"configuration says {sizes[1]}: replicas are by the latter"
            )

    def batch(self, iteration: int) -> Batch:
        """The samples of an iteration, counted from 1. Raises InputError beyond the training."""
        planned = 1 <= iteration <= self.trajectory.iterations
        record = find_step(self.metrics, iteration) if iteration > 0 else None
        if record is None and not planned:
            raise InputError(
                f"iteration {iteration} does not exist",
                where=str(self.metrics.parent),
                expected=f"1 to {self.trajectory.iterations}, the iterations of this training",
            )
        size = first = None
        if planned:
            point = self.trajectory.after_iteration(iteration)
            size, first = point.global_batch_size, point.consumed_samples - point.global_batch_size
        if record is not None:
            samples, before = record.global_batch_size, record.consumed_samples - record.global_batch_size
            return Batch(iteration, before, samples, first, size, True, record.loss)
        assert first is not None
        assert size is not None
        return Batch(iteration, first, size, first, size, False, None)

    def select(self, iteration: int, rank: int | None) -> Selection:
        """The samples of an iteration in order: all, or those that a rank's replica reads.

        Raises InputError beyond the training or the world size.
        """
        batch = self.batch(iteration)
        notes = tuple(self._notes(batch))
        if rank is None:
            return Selection(range(batch.first_sample, batch.first_sample + batch.samples), batch=batch, notes=notes)
        parallel = self.stage.training.parallel
        place, size = place_of(parallel, rank), self.stage.training.batch.micro_batch_size
        starts = micro_batch_starts(batch.first_sample, batch.samples, size, place.data, parallel.data)
        samples = [start + offset for start in starts for offset in range(size)]
        reader = Reader(rank, place, place.pipeline in (0, parallel.pipeline - 1))
        return Selection(samples, batch=batch, reader=reader, notes=notes)

    def read_by(self, sample: int, batch: Batch | None = None) -> tuple[int, int] | None:
        """(iteration, replica) that a global sample belongs to; None: the training ends before it."""
        training = self.stage.training
        if batch is None:
            if sample >= self.trajectory.end.consumed_samples:
                return None
            point = self.trajectory.after_samples(sample)
            iteration, first = point.iteration + 1, point.consumed_samples
        else:
            iteration, first = batch.iteration, batch.first_sample
        return iteration, replica_of(sample, first, training.batch.micro_batch_size, training.parallel.data)

    def _notes(self, batch: Batch) -> list[str]:
        """What a person must know about a batch."""
        if batch.agrees is None:
            newest = last_records(self.metrics)[0]
            until = f"the last one trained is {newest.iteration}" if newest else "nothing was trained yet"
            return [
                f"iteration {batch.iteration} was not trained yet ({until}): these are the samples that it will read"
            ]
        if batch.agrees:
            return []
        planned = "has no such iteration"
        if batch.planned_samples is not None:
            planned = f"gives it {batch.planned_samples} samples from {batch.planned_first_sample}"
        return [
            f"the configuration was changed since: it {planned}, but metrics.jsonl says that {batch.samples} samples "
            f"from {batch.first_sample} were trained; these are shown, and replicas are by the layout of today"
        ]
