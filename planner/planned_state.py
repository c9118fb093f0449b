"""The state of a run at an iteration, sample or token, as its log line prints it."""

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
    """Of the iteration itself."""
    sequence_length: int
    """Tokens of the iteration's samples."""
    learning_rate: float
    remaining_iterations: int


@dataclass(frozen=True)
class Speed:
    """What an iteration's time means."""

    seconds_per_iteration: float
    gpus: int
    samples_per_second: float
    tokens_per_second: float
    tflops_hardware: float
    """TFLOP/s of one GPU, recomputation counted."""
    tflops_model: float
    """TFLOP/s of one GPU, only what the model needs."""
    mfu: float | None
    """Model TFLOP/s over the GPU's peak; None where the peak is not known."""
    hfu: float | None
    """Hardware TFLOP/s over the GPU's peak."""
    remaining_days: float
    """Days to the end at this time for an iteration, with nothing between."""


def state_at(
    config: RunConfig, *, iteration: int | None = None, samples: int | None = None, tokens: int | None = None
) -> PlannedState:
    """The state after `iteration`, or after the last iteration that ends at or before `samples` or `tokens`.

    Raises:
        ValueError: not exactly one is given, or it lies beyond the run.
    """
    run = trajectory(config.model, config.training)
    given = [each for each in (iteration, samples, tokens) if each is not None]
    if len(given) != 1:
        raise ValueError("one of iteration, samples, tokens")
    if iteration is not None:
        point = run.after_iteration(iteration)
    elif samples is not None:
        point = run.after_samples(samples)
    else:
        point = run.after_tokens(given[0])
    return state_of(config, point)


def state_of(config: RunConfig, point: PlannedPosition) -> PlannedState:
    """The state at a point of the run's trajectory."""
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
    """What `seconds` for the iteration of `state` mean on `gpu_count` GPUs (None: the run's layout).

    The peak is that of `plan.gpu`, else `training.peak_tflops`.
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
