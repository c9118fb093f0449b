"""Compute the counters and the learning rate of a run at an iteration, sample or token, as its log prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.flops import iteration_flops, tflops_per_device
from bloomery.spec.hardware import gpus
from bloomery.spec.learning_rate import learning_rate_at
from bloomery.spec.parameters import planned_rows
from bloomery.spec.trajectory import PlannedPosition, trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


@dataclass(frozen=True)
class PlannedState:
    """Counters and learning rate after an iteration."""

    iteration: int
    total_iterations: int
    consumed_samples: int
    consumed_tokens: int
    global_batch_size: int
    """Global batch size of this iteration."""
    sequence_length: int
    """Number of tokens of each sample in this iteration."""
    learning_rate: float
    remaining_iterations: int


@dataclass(frozen=True)
class Speed:
    """Speed that follows from the time of an iteration."""

    seconds_per_iteration: float
    gpus: int
    samples_per_second: float
    tokens_per_second: float
    tflops_hardware: float
    """TFLOP/s of one GPU, including recomputation."""
    tflops_model: float
    """TFLOP/s of one GPU, without recomputation."""
    mfu: float | None
    """Model TFLOP/s divided by the GPU's peak; None if the peak is unknown."""
    hfu: float | None
    """Hardware TFLOP/s divided by the GPU's peak; None if the peak is unknown."""
    remaining_days: float
    """Days until the end of the training at this speed, without interruptions."""


def state_at(
    config: RunConfig, *, iteration: int | None = None, samples: int | None = None, tokens: int | None = None
) -> PlannedState:
    """Return the state after `iteration`, or after the last iteration that ends at or before `samples` or `tokens`.

    Raises:
        ValueError: not exactly one position is given, or the position is outside the run.
    """
    run = trajectory(config.model, config.training)
    given = [each for each in (iteration, samples, tokens) if each is not None]
    if len(given) != 1:
        raise ValueError("exactly one of iteration, samples and tokens must be given")
    if iteration is not None:
        point = run.after_iteration(iteration)
    elif samples is not None:
        point = run.after_samples(samples)
    else:
        point = run.after_tokens(given[0])
    return state_of(config, point)


def state_of(config: RunConfig, point: PlannedPosition) -> PlannedState:
    """Return the state at a point of the run's trajectory."""
    training, run = config.training, trajectory(config.model, config.training)
    return PlannedState(
        iteration=point.iteration,
        total_iterations=run.iterations,
        consumed_samples=point.consumed_samples,
        consumed_tokens=point.consumed_tokens,
        global_batch_size=point.global_batch_size,
        sequence_length=point.sequence_length,
        learning_rate=learning_rate_at(config.model, training, point.consumed_samples, point.consumed_tokens),
        remaining_iterations=run.iterations - point.iteration,
    )


def speed_at(config: RunConfig, state: PlannedState, seconds: float, gpu_count: int | None = None) -> Speed:
    """Return the speed if the iteration of `state` takes `seconds` on `gpu_count` GPUs.

    If `gpu_count` is None, the number of GPUs of the layout is used. The GPU's peak speed is that of `plan.gpu`, or
    `training.peak_tflops` if `plan.gpu` is not set.
    """
    training, model = config.training, config.model
    count = gpu_count or training.parallel.world_size
    length = state.sequence_length - (model.decoder_sequence_length or 0)

    def tflops(recomputed: bool) -> float:
        flops = iteration_flops(
            model, planned_rows(config), state.global_batch_size, recomputed=recomputed, sequence_length=length
        )
        return tflops_per_device(flops, seconds, count)

    hardware, needed = tflops(training.activation_checkpointing == "full"), tflops(False)
    peak = gpus()[config.plan.gpu].peak_tflops if config.plan.gpu is not None else training.peak_tflops
    return Speed(
        seconds_per_iteration=seconds,
        gpus=count,
        samples_per_second=state.global_batch_size / seconds,
        tokens_per_second=state.global_batch_size * state.sequence_length / seconds,
        tflops_hardware=hardware,
        tflops_model=needed,
        mfu=needed / peak if peak else None,
        hfu=hardware / peak if peak else None,
        remaining_days=state.remaining_iterations * seconds / 86_400,
    )
