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
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest
from bloomery.contracts.index import IndexManifest
from bloomery.contracts.metrics_record import MetricsRecord, find_step, last_records
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import prefix_differences, sample_prefix
from bloomery.contracts.skips import effective
from bloomery.spec.batch import micro_batch_size
from bloomery.spec.layout import RankCoordinates, coordinates_of, micro_batch_starts, replica_of
from bloomery.spec.position import Position
from bloomery.spec.skip_arithmetic import Batch as PlannedBatch
from bloomery.spec.skip_arithmetic import batch_before, next_batch
from bloomery.spec.trajectory import Trajectory, trajectory, trajectory_through


@dataclass(frozen=True)
class TracedBatch:
    """The samples of one iteration."""

    iteration: int
    first_sample: int
    samples: int
    """How many: what lies between and is skipped not counted."""
    spans: tuple[tuple[int, int], ...]
    """First samples, and those behind the last ones, of what lies in a row: one, where nothing is skipped."""
    planned_first_sample: int | None
    """By the configuration; None: the configured training has no such iteration."""
    planned_samples: int | None
    planned_spans: tuple[tuple[int, int], ...] | None
    recorded: bool
    """Whether metrics.jsonl holds the iteration: first sample and samples are then the record's."""
    loss: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether metrics.jsonl and the configuration say the same; None when the iteration was not trained yet."""
        if not self.recorded:
            return None
        return self.spans == self.planned_spans

    @property
    def numbers(self) -> list[int]:
        """Its samples, in the order in which the replicas share them."""
        return [sample for first, end in self.spans for sample in range(first, end)]


@dataclass(frozen=True)
class Reader:
    """Who reads: one process, and the replica that it is part of."""

    rank: int
    place: RankCoordinates
    holds_data: bool
    """First and last pipeline stages are fed samples; the stages between see activations only."""


@dataclass(frozen=True)
class Selection:
    """What is traced."""

    samples: Sequence[int]
    """Numbers in the training, or in the validation set."""
    validation: str | None = None
    batch: TracedBatch | None = None
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
        stage = effective(read_stage(paths.config / "train.json", TrainStage), paths)
        checkpoint = newest_manifest(paths.checkpoints)
        run = trajectory(stage.model, stage.training)
        if checkpoint is not None:
            run = trajectory_through(stage.model, stage.training, Position.of(checkpoint))
        return cls(stage, run, paths.logs / "metrics.jsonl", checkpoint)

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

    def batch(self, iteration: int) -> TracedBatch:
        """The samples of an iteration, counted from 1. Raises InputError beyond the training."""
        plan = self._planned(iteration)
        record = find_step(self.metrics, iteration) if iteration > 0 else None
        if record is None and plan is None:
            raise InputError(
                f"iteration {iteration} does not exist",
                where=str(self.metrics.parent),
                expected=f"1 to {self.trajectory.iterations}, the iterations of this training",
            )
        batch = plan if record is None else self._trained(record)
        assert batch is not None
        return TracedBatch(
            iteration=iteration,
            first_sample=batch.spans[0].start,
            samples=len(batch.samples),
            spans=_ends(batch),
            planned_first_sample=plan.spans[0].start if plan else None,
            planned_samples=len(plan.samples) if plan else None,
            planned_spans=_ends(plan) if plan else None,
            recorded=record is not None,
            loss=record.loss if record else None,
        )

    def _planned(self, iteration: int) -> PlannedBatch | None:
        """What the configuration gives an iteration; None: it has no such iteration."""
        run = self.trajectory
        if not run.start.iteration < iteration <= run.iterations:
            return None
        before, size = (
            run.after_iteration(iteration - 1).consumed_samples,
            run.after_iteration(iteration).global_batch_size,
        )
        return next_batch(self.stage.training.skip, before, size)

    def _trained(self, record: MetricsRecord) -> PlannedBatch:
        """What an iteration was trained on: where nothing was skipped the samples lie in a row, whatever is skipped
        today."""
        behind, size = record.consumed_samples, record.global_batch_size
        earlier = find_step(self.metrics, record.iteration - 1) if record.iteration > 1 else None
        batch = batch_before(self.stage.training.skip, behind, size)
        if earlier is not None and batch.skipped_samples > record.skipped_samples - earlier.skipped_samples:
            return PlannedBatch((range(behind - size, behind),), behind)
        return batch

    def select(self, iteration: int, rank: int | None) -> Selection:
        """The samples of an iteration in order: all, or those that a rank's replica reads.

        Raises InputError beyond the training or the world size.
        """
        batch = self.batch(iteration)
        notes = tuple(self._notes(batch))
        if rank is None:
            return Selection(batch.numbers, batch=batch, notes=notes)
        parallel = self.stage.training.parallel
        place, size = coordinates_of(parallel, rank), micro_batch_size(self.stage.training.batch, batch.samples)
        starts = micro_batch_starts(0, batch.samples, size, place.data, parallel.data)
        numbers = batch.numbers
        samples = [sample for start in starts for sample in numbers[start : start + size]]
        reader = Reader(rank, place, place.pipeline in (0, parallel.pipeline - 1))
        return Selection(samples, batch=batch, reader=reader, notes=notes)

    def read_by(self, sample: int, batch: TracedBatch | None = None) -> tuple[int, int] | None:
        """(iteration, replica) that a global sample belongs to; None: it is skipped, or the training ends before it."""
        training = self.stage.training
        if batch is None:
            if not self.trajectory.start.consumed_samples <= sample < self.trajectory.end.consumed_samples:
                return None
            iteration = self.trajectory.after_samples(sample).iteration + 1
            plan = self._planned(iteration)
            assert plan is not None
            spans = _ends(plan)
        else:
            iteration, spans = batch.iteration, batch.spans
        size = micro_batch_size(training.batch, sum(end - first for first, end in spans))
        before = 0
        for first, end in spans:
            if first <= sample < end:
                return iteration, replica_of(before + sample - first, 0, size, training.parallel.data)
            before += end - first
        return None

    def _notes(self, batch: TracedBatch) -> list[str]:
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


def _ends(batch: PlannedBatch) -> tuple[tuple[int, int], ...]:
    return tuple((span.start, span.stop) for span in batch.spans)
