"""One segment of training, from the newest checkpoint until the end, the time limit or an order to stop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.distributed as dist

from bloomery.base.errors import CheckFailedError
from bloomery.base.times import utc_now
from bloomery.config.stages import TrainStage
from bloomery.contracts.index import IndexManifest, array_entries, read_index_manifest, verify_array
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.record import MetricsRecord, ValidationRecord
from bloomery.contracts.samples import SampleReader
from bloomery.contracts.segment import Segment, SegmentStatus
from bloomery.plan.batch import global_batch_size, total_iterations
from bloomery.plan.flops import iteration_flops, tflops_per_device
from bloomery.plan.parameters import padded_vocabulary
from bloomery.plan.schedule import learning_rate
from training.data.batches import micro_batches
from training.loop.checkpoint import Position, load, prune, save
from training.loop.clock import SegmentClock
from training.loop.control import ControlPlane, Order
from training.loop.engine import Trainer, build_trainer
from training.loop.identity import identity
from training.loop.metrics import MetricsWriter
from training.loop.reference import reference_tokens
from training.loop.validate import validate
from training.parallel.mesh import Mesh


@dataclass
class TrainingState:
    """A training in progress: what the loop holds on each rank."""

    trainer: Trainer
    reader: SampleReader
    index: IndexManifest
    paths: RunPaths
    identity: str
    number: int
    total_iterations: int
    position: Position
    metrics: MetricsWriter | None
    clock: SegmentClock

    def save(self) -> str:
        """Save a checkpoint here and prune old ones; returns its folder name. Collective."""
        started = time.perf_counter()
        tokens = reference_tokens(self.reader, self.index.sequence_length)
        name = save(self.trainer, self.paths.checkpoints, self.position, self.identity, self.index, tokens)
        self.clock.note_save(time.perf_counter() - started)
        if self.metrics is not None:
            self.metrics.note(f"saved checkpoint {name}")
            prune(self.paths.checkpoints, self.trainer.stage.training.checkpoint)
        return name


def run_segment(stage: TrainStage, mesh: Mesh, paths: RunPaths, number: int, end: float | None = None) -> Segment:
    """Train until this segment ends; returns the same Segment on every rank.

    `end` is when the scheduler ends the job (Unix epoch): the segment saves and ends before.

    Raises:
        CheckFailedError: the loss is not finite, or DeepSpeed built something else than promised.
        InputError: the index is missing or damaged.
    """
    training = stage.training
    index = read_index_manifest(paths.index_manifest)
    if mesh.rank == 0:
        # Arrays only (6 GB for BLOOM's 166.8 M samples): the token files are hashed by `bloomery index verify`.
        for entry in array_entries(index):
            verify_array(paths.index, entry)
    reader = SampleReader(paths.index)
    vocabulary_rows = padded_vocabulary(index.vocabulary_size, stage.model, training.parallel.tensor)
    limits = training.segment
    clock = SegmentClock(limits.minutes, end, 60.0 * limits.margin_minutes, limits.iterations)
    control = ControlPlane(paths.control, mesh.device, clock)
    trainer = build_trainer(stage, mesh, vocabulary_rows)
    own = identity(stage, index)
    position = load(trainer, paths.checkpoints, own, index)
    metrics = MetricsWriter(paths.logs, position.iteration + 1) if mesh.rank == 0 else None
    run = TrainingState(
        trainer=trainer,
        reader=reader,
        index=index,
        paths=paths,
        identity=own,
        number=number,
        total_iterations=total_iterations(training.batch, training.train_samples),
        position=position,
        metrics=metrics,
        clock=clock,
    )
    if metrics is not None:
        start = f"resuming after iteration {position.iteration}" if position.iteration else "starting"
        metrics.note(
            f"segment {number}: {start} of {run.total_iterations}; {mesh.parallel.world_size} processes "
            f"(tensor {mesh.parallel.tensor} x pipeline {mesh.parallel.pipeline} x data {mesh.parallel.data}) "
            f"on {mesh.device.type}, {training.precision}"
        )
    try:
        return _train(run, control, first_iteration=position.iteration + 1)
    finally:
        if metrics is not None:
            metrics.close()


def _train(run: TrainingState, control: ControlPlane, first_iteration: int) -> Segment:
    training = run.trainer.stage.training
    order, checkpoint = Order.GO, None
    while run.position.iteration < run.total_iterations:
        order = control.poll()
        # A segment does at least one iteration before its time is up: a chain of them always comes forward.
        progressed = run.position.iteration >= first_iteration
        if order is Order.STOP or (order is Order.TIME_LIMIT and progressed):
            break
        if order is Order.SAVE:
            run.save()
            control.clear_save()
        train_step(run)
        iteration = run.position.iteration
        last = iteration == run.total_iterations
        if iteration % training.validation.every_iterations == 0 or last:
            _validate(run, control)
        if iteration % training.checkpoint.every_iterations == 0 and not last:
            run.save()
    if run.position.iteration:
        checkpoint = run.save()
    finished = run.position.iteration >= run.total_iterations
    status = SegmentStatus.FINISHED
    if not finished:
        status = SegmentStatus.TIME_LIMIT if order is Order.TIME_LIMIT else SegmentStatus.STOPPED
    if run.metrics is not None:
        run.metrics.note(f"segment {run.number}: {status.value} after iteration {run.position.iteration}")
    return Segment(
        number=run.number,
        status=status,
        first_iteration=first_iteration if run.position.iteration >= first_iteration else 0,
        iteration=run.position.iteration,
        total_iterations=run.total_iterations,
        consumed_samples=run.position.consumed_samples,
        consumed_tokens=run.position.consumed_tokens,
        checkpoint=checkpoint,
        identity=run.identity,
    )


def train_step(run: TrainingState) -> None:
    """One optimizer step; batch size and learning rate follow from the consumed samples alone."""
    trainer, training, before = run.trainer, run.trainer.stage.training, run.position
    engine, mesh = trainer.engine, trainer.mesh
    size = global_batch_size(training.batch, before.consumed_samples)
    # The rate belongs to the samples that the step ends with: (consumed samples, learning rate) is then the pair of
    # BLOOM's log, and no first step is lost at rate 0.
    rate = learning_rate(training.optimizer, before.consumed_samples + size, training.train_samples)
    engine.set_train_batch_size(size)
    for group in engine.optimizer.param_groups:
        group["lr"] = rate
    started = time.perf_counter()
    batches = micro_batches(
        run.reader.train,
        before.consumed_samples,
        size,
        training.batch.micro_batch_size,
        mesh.data_rank,
        mesh.parallel.data,
    )
    loss = float(engine.train_batch(batches))
    seconds = time.perf_counter() - started
    run.clock.note_iteration(seconds)
    if not math.isfinite(loss):
        raise CheckFailedError(
            f"the loss is {loss}",
            where=f"iteration {before.iteration + 1}, samples from {before.consumed_samples}",
            expected="a finite loss (lower learning rate, longer warm-up, or look at those samples)",
        )
    tokens = size * run.index.sequence_length
    run.position = Position(before.iteration + 1, before.consumed_samples + size, before.consumed_tokens + tokens)
    if run.metrics is not None:
        run.metrics.step(_record(run, loss, seconds, size, tokens, rate, engine))


def _record(
    run: TrainingState, loss: float, seconds: float, size: int, tokens: int, rate: float, engine: Any
) -> MetricsRecord:
    stage, world = run.trainer.stage, run.trainer.mesh.parallel.world_size
    flops = partial(iteration_flops, stage.model, run.trainer.vocabulary_rows, size)
    model_tflops = tflops_per_device(flops(recomputed=False), seconds, world)
    peak = stage.training.peak_tflops
    return MetricsRecord(
        iteration=run.position.iteration,
        consumed_samples=run.position.consumed_samples,
        consumed_tokens=run.position.consumed_tokens,
        global_batch_size=size,
        learning_rate=rate,
        loss=loss,
        grad_norm=float(engine.get_global_grad_norm()),
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        tflops_hardware=tflops_per_device(flops(recomputed=stage.training.activation_checkpointing), seconds, world),
        tflops_model=model_tflops,
        samples_per_second=size / seconds,
        total_iterations=run.total_iterations,
        segment=run.number,
        time=utc_now(),
        mfu=model_tflops / peak if peak else None,
    )


def _validate(run: TrainingState, control: ControlPlane) -> None:
    """Validate and record; an order that comes between sets ends it early, and the loop's next poll sees it again."""
    losses = validate(run.trainer, run.reader, lambda: control.poll() in (Order.STOP, Order.TIME_LIMIT))
    dist.barrier()
    if run.metrics is not None and losses:
        run.metrics.validation(
            ValidationRecord(
                iteration=run.position.iteration,
                consumed_samples=run.position.consumed_samples,
                consumed_tokens=run.position.consumed_tokens,
                segment=run.number,
                time=utc_now(),
                validation=losses,
                validation_mean=sum(losses.values()) / len(losses),
            )
        )
