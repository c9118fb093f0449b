"""Map an iteration and a rank to the samples that they read, and a sample to its iteration and replica.

The planned samples follow from the training's configuration, computed by the functions that the training itself calls.
metrics.jsonl records the trained samples. If planned and trained samples differ, the configuration was changed after
the iteration, and the trained samples are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, newest_manifest
from bloomery.contracts.index_manifest import IndexManifest
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.read_metrics import find_step, last_records
from bloomery.contracts.sample_prefix import prefix_differences, sample_prefix
from bloomery.contracts.train_stage import read_effective
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
    """Number of samples, without skipped samples."""
    spans: tuple[tuple[int, int], ...]
    """Ranges of consecutive samples as (first, end), where end is exclusive. There is one range if no sample is
    skipped."""
    planned_first_sample: int | None
    """First sample according to the configuration, or None if the configured training has no such iteration."""
    planned_samples: int | None
    """Number of samples according to the configuration, or None if the configured training has no such iteration."""
    planned_spans: tuple[tuple[int, int], ...] | None
    """Ranges of samples according to the configuration, or None if the configured training has no such iteration."""
    recorded: bool
    """Whether metrics.jsonl holds the iteration. If so, `first_sample`, `samples` and `spans` come from the record."""
    loss: float | None
    """Recorded loss, or None if metrics.jsonl does not hold the iteration."""

    @property
    def agrees(self) -> bool | None:
        """Whether metrics.jsonl and the configuration give the same samples.

        It is None if metrics.jsonl does not hold the iteration.
        """
        if not self.recorded:
            return None
        return self.spans == self.planned_spans

    @property
    def numbers(self) -> list[int]:
        """The numbers of the samples, in the order in which they are divided among the replicas."""
        return [sample for first, end in self.spans for sample in range(first, end)]


@dataclass(frozen=True)
class Reader:
    """The process that reads samples, with its position in the parallel layout."""

    rank: int
    place: RankCoordinates
    holds_data: bool
    """Whether the process loads samples. The first and last pipeline stages do; other stages receive activations."""


@dataclass(frozen=True)
class Selection:
    """The samples to trace."""

    samples: Sequence[int]
    """Numbers of the samples in the training or in the validation set."""
    validation: str | None = None
    """Name of the validation set, or None for the training."""
    batch: TracedBatch | None = None
    """Iteration that reads the samples, or None if no iteration was selected."""
    reader: Reader | None = None
    """Process whose samples are traced, or None if no rank was selected."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""


@dataclass(frozen=True)
class Training:
    """The parts of a training that decide which process reads which samples."""

    stage: TrainStage
    trajectory: Trajectory
    metrics: Path
    checkpoint: CheckpointManifest | None
    """Manifest of the newest checkpoint, which records the index and layout that it used. None without a checkpoint."""

    @classmethod
    def of(cls, paths: RunPaths) -> Training:
        """Read the training of a run. Raises InputError if a file is missing or damaged."""
        stage = read_effective(paths.config / "train.json", paths)
        checkpoint = newest_manifest(paths.checkpoints)
        run = trajectory(stage.model, stage.training)
        if checkpoint is not None:
            run = trajectory_through(stage.model, stage.training, Position.of(checkpoint))
        return cls(stage, run, paths.logs / "metrics.jsonl", checkpoint)

    def changes(self, index: IndexManifest) -> Iterator[str]:
        """Yield notes on how the current index and layout differ from those of the newest checkpoint."""
        saved = self.checkpoint
        if saved is None:
            return
        found = prefix_differences(saved.prefix, sample_prefix(index, saved.consumed_samples))
        if found:
            yield (
                f"the index was changed since the checkpoint of iteration {saved.iteration} was saved "
                f"({'; '.join(found)}). The training may have read other samples than those shown"
            )
        parallel = self.stage.training.parallel
        before = (saved.tensor_parallel, saved.pipeline_parallel, saved.data_parallel)
        now = (parallel.tensor, parallel.pipeline, parallel.data)
        if before != now:
            sizes = [" x ".join(map(str, layout)) for layout in (before, now)]
            yield (
                f"the checkpoint of iteration {saved.iteration} was saved by tensor x pipeline x data = {sizes[0]} "
                f"processes, but the configuration has {sizes[1]} processes. The replicas shown are those of "
                "the configuration"
            )

    def batch(self, iteration: int) -> TracedBatch:
        """Return the samples of an iteration, counted from 1. Raises InputError if there is no such iteration."""
        plan = self._planned(iteration)
        record = find_step(self.metrics, iteration) if iteration > 0 else None
        if record is None and plan is None:
            raise InputError(
                f"iteration {iteration} does not exist",
                where=str(self.metrics.parent),
                expected=f"an iteration from 1 to {self.trajectory.iterations}, the last iteration of this training",
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
        """Return the samples of an iteration according to the configuration.

        Return None if the configured training has no such iteration.
        """
        run = self.trajectory
        if not run.start.iteration < iteration <= run.iterations:
            return None
        before, size = (
            run.after_iteration(iteration - 1).consumed_samples,
            run.after_iteration(iteration).global_batch_size,
        )
        return next_batch(self.stage.training.skip, before, size)

    def _trained(self, record: MetricsRecord) -> PlannedBatch:
        """Return the samples that an iteration was trained on.

        The configured skips may have changed since the iteration was trained. If the records show fewer skipped samples
        than the configuration gives, the trained samples are assumed to be consecutive.
        """
        behind, size = record.consumed_samples, record.global_batch_size
        earlier = find_step(self.metrics, record.iteration - 1) if record.iteration > 1 else None
        batch = batch_before(self.stage.training.skip, behind, size)
        if earlier is not None and batch.skipped_samples > record.skipped_samples - earlier.skipped_samples:
            return PlannedBatch((range(behind - size, behind),), behind)
        return batch

    def select(self, iteration: int, rank: int | None) -> Selection:
        """Return the samples of an iteration in order, or only those that the replica of `rank` reads.

        Raises:
            InputError: there is no such iteration or rank.
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
        """Return the (iteration, replica) that reads a sample of the training.

        Return None if the sample is skipped or not in the training. If `batch` is given, only that iteration is
        searched.
        """
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
        """Return notes for the user if the batch was not trained yet or differs from the configuration."""
        if batch.agrees is None:
            newest = last_records(self.metrics)[0]
            until = f"the last trained iteration is {newest.iteration}" if newest else "no iteration was trained yet"
            return [f"iteration {batch.iteration} was not trained yet ({until}). It will read the samples shown"]
        if batch.agrees:
            return []
        planned = "has no such iteration"
        if batch.planned_samples is not None:
            planned = f"gives the iteration {batch.planned_samples} samples from sample {batch.planned_first_sample} on"
        return [
            f"the configuration was changed after this iteration was trained. The configuration now {planned}, but "
            f"metrics.jsonl records {batch.samples} samples from sample {batch.first_sample} on. The recorded samples "
            "are shown, with the replicas of the current configuration"
        ]


def _ends(batch: PlannedBatch) -> tuple[tuple[int, int], ...]:
    return tuple((span.start, span.stop) for span in batch.spans)
