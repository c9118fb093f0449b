"""Run one optimizer step, and create its record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from deepspeed.runtime.pipe.engine import TRAIN_BATCH_TIMER

from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.detect.slow_rank import extremes
from bloomery.spec.flops import iteration_flops, tflops_per_device
from bloomery.spec.next_step import PlannedStep
from bloomery.spec.position import Position
from training.data.batches import micro_batches, samples_of_micro_batches
from training.guards.anomaly_guard import Outcome
from training.loop.control import Poll
from training.loop.rank_progress import PROGRESS
from training.loop.training_state import TrainingState


@dataclass(frozen=True)
class TrainedStep:
    """Result of a step on this rank."""

    planned: PlannedStep
    outcome: Outcome
    seconds: float
    work_seconds: float
    """Seconds that this rank computed, without waiting for other ranks."""
    loss_scale: float | None
    """Loss scale of this step for fp16. None for other precisions."""


def train_step(run: TrainingState, planned: PlannedStep) -> TrainedStep:
    """Run a step and advance the position. Collective."""
    trainer, before = run.trainer, run.position
    engine, mesh, gate = trainer.engine, trainer.mesh, trainer.gate
    engine.set_train_micro_batch_size(planned.micro_batch_size)
    engine.set_train_batch_size(planned.global_batch_size)
    for group in engine.optimizer.param_groups:
        group["lr"] = planned.learning_rate
    shape = (planned.micro_batch_size, planned.sequence_length)
    if shape != run.micro_batch_shape:
        # DeepSpeed's buffers between stages have the shape of the previous micro-batches.
        engine.reset_activation_shape()
        run.micro_batch_shape = shape
    own = planned.batch.samples, planned.micro_batch_size, mesh.data_rank, mesh.parallel.data
    batches = micro_batches(run.reader.train, *own, planned.sequence_length)
    dropout = trainer.network.dropout.step(trainer.stage.seed, before.iteration + 1, samples_of_micro_batches(*own))
    scale = gate.loss_scale
    run.compute_timer.take()
    started = time.perf_counter()
    with PROGRESS.step(before.iteration + 1, shape), dropout:
        loss = float(engine.train_batch(batches))
    seconds = time.perf_counter() - started
    run.deadline.note_iteration(seconds)
    # DeepSpeed collects batch times (two CUDA events each on a GPU) until it prints them, which it never does here.
    engine.timers(TRAIN_BATCH_TIMER).reset()
    outcome = Outcome(
        iteration=before.iteration + 1,
        from_sample=before.consumed_samples,
        to_sample=planned.batch.end,
        loss=loss,
        grad_norm=gate.norm,
        left_out=gate.left_out,
        overflowed=gate.overflowed,
        sequence_length=planned.sequence_length if trainer.stage.training.curriculum is not None else None,
    )
    run.position = Position(
        iteration=outcome.iteration,
        consumed_samples=planned.batch.end,
        consumed_tokens=before.consumed_tokens + planned.tokens,
        skipped_samples=before.skipped_samples + planned.skipped_samples,
        skipped_updates=before.skipped_updates + outcome.left_out,
        non_finite=before.non_finite + (not outcome.is_finite),
    )
    return TrainedStep(planned, outcome, seconds, run.compute_timer.take(), scale)


def record_of(run: TrainingState, done: TrainedStep, poll: Poll) -> MetricsRecord:
    """Return the record of the step that was just trained. `poll` is the poll after this step."""
    stage, mesh, planned, outcome = run.trainer.stage, run.trainer.mesh, done.planned, done.outcome
    size, length, seconds = planned.global_batch_size, planned.sequence_length, done.seconds
    flops = partial(iteration_flops, stage.model, run.trainer.vocabulary_rows, size, sequence_length=length)
    recomputed = stage.training.activation_checkpointing == "full"
    world, peak = mesh.parallel.world_size, stage.training.peak_tflops
    model_tflops = tflops_per_device(flops(recomputed=False), seconds, world)
    fastest, fastest_seconds, slowest, slowest_seconds = extremes(poll.work_seconds)
    return MetricsRecord(
        **run.stamp(),
        global_batch_size=size,
        learning_rate=planned.learning_rate,
        loss=outcome.loss,
        grad_norm=outcome.grad_norm,
        seconds=seconds,
        tokens_per_second=planned.tokens / seconds,
        tflops_hardware=tflops_per_device(flops(recomputed=recomputed), seconds, world),
        tflops_model=model_tflops,
        samples_per_second=size / seconds,
        total_iterations=run.total_iterations,
        mfu=model_tflops / peak if peak else None,
        sequence_length=outcome.sequence_length,
        skipped_samples=run.position.skipped_samples,
        update_skipped=outcome.left_out,
        skipped_updates=run.position.skipped_updates,
        non_finite=run.position.non_finite,
        loss_scale=done.loss_scale,
        overflowed=None if done.loss_scale is None else outcome.overflowed,
        fastest_rank=fastest,
        fastest_seconds=fastest_seconds,
        slowest_rank=slowest,
        slowest_seconds=slowest_seconds,
        memory_bytes=poll.memory_bytes,
        trust_ratios=None if outcome.left_out else run.trainer.trust_ratios(),
        save_seconds=run.take_save_seconds(),
    )
