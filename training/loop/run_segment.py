"""Run one segment of training, from the newest checkpoint until training ends, time is up, or an order ends it."""

from __future__ import annotations

import time

from bloomery.checkpoint.drift import DriftError
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import newest_manifest, step_name
from bloomery.contracts.heartbeat import Place
from bloomery.contracts.metrics_record import ValidationRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus
from bloomery.spec.next_step import PlannedStep, next_step
from bloomery.spec.position import Position
from bloomery.spec.save_points import is_due
from training.checkpoint.collective_calls import from_rank_0
from training.checkpoint.damaged_state import DamagedStateError
from training.loop.control import Order
from training.loop.finish_step import (
    drift_error,
    finish_step,
    guard_replay,
    record_changes,
    record_energy,
    report_damaged_state,
)
from training.loop.rank_progress import PROGRESS, count_instructions
from training.loop.train_step import train_step
from training.loop.training_state import TrainingState, open_training
from training.loop.validate import validate
from training.parallel.mesh import Mesh

_STATUS = {
    Order.TIME_LIMIT: SegmentStatus.TIME_LIMIT,
    Order.STOP: SegmentStatus.STOPPED,
    Order.ROLL_BACK: SegmentStatus.ROLLED_BACK,
}


def run_segment(stage: TrainStage, mesh: Mesh, paths: RunPaths, number: int, end: float | None = None) -> Segment:
    """Train until this segment ends. Return the record of the segment, which is the same on every rank. Collective.

    `end` is the time at which the scheduler ends the job, in seconds of the Unix epoch. The segment saves and ends
    before that time.

    Raises:
        CheckFailedError: a guard ended the training, every checkpoint is damaged, or DeepSpeed built an engine that
            differs from the configuration.
        DamagedStateError: the state in memory is damaged, so it was not saved. The next segment resumes from the newest
            good checkpoint.
        ConfigError: the training cannot load the checkpoint or run on this machine as configured.
        InputError: the index is missing or damaged.
    """
    with PROGRESS.during(Place.LOADING):
        run = open_training(stage, mesh, paths, number, end)
    count_instructions(run.trainer.engine, PROGRESS)
    PROGRESS.iteration = run.position.iteration
    try:
        PROGRESS.enter(Place.ITERATION)
        return train(run)
    finally:
        PROGRESS.enter(Place.ENDING)
        run.close()


def train(run: TrainingState) -> Segment:
    """Train until the segment ends, save a checkpoint, and return the segment. Collective.

    Raises:
        CheckFailedError: a guard ended the training.
        DamagedStateError: the state in memory is damaged. An incident and an event are recorded.
    """
    try:
        try:
            return _train(run)
        except DriftError as error:
            raise drift_error(run, error) from error
    except DamagedStateError as error:
        report_damaged_state(run, error)
        raise


def _train(run: TrainingState) -> Segment:
    """Train as `train` does, but raise DriftError if replicas drifted, and record no damaged state."""
    parallel, iteration = run.trainer.mesh.parallel, run.position.iteration
    total, world = run.total_iterations, parallel.world_size
    begins = f"resuming after iteration {iteration} of {total}" if iteration else f"starting, {total} iterations"
    run.note(
        f"segment {run.number}: {begins}; {world} process{'es' * (world > 1)} (tensor {parallel.tensor} x pipeline "
        f"{parallel.pipeline} x data {parallel.data}) on {run.trainer.mesh.device.type}, "
        f"{run.trainer.stage.training.precision}"
    )
    run.note(f"kernels: {run.trainer.network.kernels}")
    record_changes(run)
    order = _iterate(run)
    if order is Order.ROLL_BACK:
        return _ended(run, SegmentStatus.ROLLED_BACK, None)
    run.finish_save()
    finished = _next(run) is None and not _validation_is_due(run)
    status = SegmentStatus.FINISHED if finished else _STATUS[order]
    checkpoint = None
    if run.position.iteration:
        checkpoint = run.save()
        # This save also fulfils a save request that arrived during the last iteration.
        run.control.clear_save()
    return _ended(run, status, checkpoint)


def _iterate(run: TrainingState) -> Order:
    """Train until an order ends the segment or the training is done. Return the last order. Collective."""
    training = run.trainer.stage.training
    order = run.poll().order
    every, replay_every = training.guards.replicas_every_iterations, training.guards.replay_every_iterations
    if not run.position.iteration:
        # The state of a checkpoint was compared when it was loaded.
        run.check_replicas()
    # An order may have interrupted this validation at the end of the previous segment.
    if order is not Order.STOP and _validation_is_due(run):
        order = max(order, _validate(run))
    while True:
        # A segment runs at least one iteration even if its time is up, so that a chain of segments always progresses.
        if order.ends and (order is not Order.TIME_LIMIT or run.progressed):
            return order
        planned = _next(run)
        if planned is None:
            return order
        if run.deadline.iterations_are_over:
            return Order.TIME_LIMIT
        if order is Order.SAVE:
            run.save()
            run.control.clear_save()
        order = finish_step(run, train_step(run, planned)).order
        if order is Order.ROLL_BACK:
            return order
        iteration = run.position.iteration
        if every is not None and iteration % every == 0:
            run.check_replicas()
        if replay_every is not None and iteration % replay_every == 0:
            with PROGRESS.during(Place.REPLAY):
                guard_replay(run, planned)
        if _validation_is_due(run) and not order.ends:
            # max() keeps a save request that arrived before the validation.
            order = max(order, _validate(run))
        if is_due(training.checkpoint, iteration) and not order.ends and _next(run) is not None:
            run.save(wait=not training.checkpoint.asynchronous)


def _next(run: TrainingState) -> PlannedStep | None:
    """Return the next planned step, or None if the training is done."""
    stage = run.trainer.stage
    return next_step(stage.model, stage.training, run.position.consumed_samples, run.position.consumed_tokens)


def _validation_is_due(run: TrainingState) -> bool:
    """Whether a validation is due after the current iteration and has not been completed yet."""
    iteration = run.position.iteration
    every = run.trainer.stage.training.validation.every_iterations
    return iteration > run.validated and (iteration % every == 0 or _next(run) is None)


def _validate(run: TrainingState) -> Order:
    """Validate and record the losses. Return the order that interrupted the validation, or GO. Collective."""
    order = Order.GO

    def interrupted() -> bool:
        nonlocal order
        order = run.poll().order
        return order is Order.STOP or (order is Order.TIME_LIMIT and run.progressed)

    started = time.perf_counter()
    with PROGRESS.during(Place.VALIDATION):
        losses = validate(run.trainer, run.reader, interrupted)
    if losses is None:
        run.note(f"validation after iteration {run.position.iteration} was interrupted; the next segment repeats it")
        return order
    run.micro_batch_shape = None
    run.validated = run.position.iteration
    values: dict[str, float | None] = dict(losses)
    if run.metrics is not None and losses:
        run.metrics.validation(
            ValidationRecord(
                **run.stamp(),
                validation=values,
                validation_mean=sum(losses.values()) / len(losses),
                seconds=time.perf_counter() - started,
            )
        )
    return Order.GO


def _ended(run: TrainingState, status: SegmentStatus, checkpoint: str | None) -> Segment:
    """Record the energy and the end of the segment, and return the segment. Collective."""
    if run.energy is not None:
        run.energy.stop()
        record_energy(run, run.poll().energy)
    run.note(f"segment {run.number} ended with status {status.value} after iteration {run.position.iteration}")
    position = run.position
    if status is SegmentStatus.ROLLED_BACK:
        newest = from_rank_0(lambda: newest_manifest(run.paths.checkpoints))
        position = Position.of(newest)
        checkpoint = step_name(position.iteration) if newest else None
    return Segment(
        number=run.number,
        status=status,
        first_iteration=run.first_iteration if run.progressed else 0,
        iteration=position.iteration,
        total_iterations=run.total_iterations,
        consumed_samples=position.consumed_samples,
        consumed_tokens=position.consumed_tokens,
        checkpoint=checkpoint,
        identity=run.identity,
        end_save_seconds=run.take_save_seconds(),
    )
