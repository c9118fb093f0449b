"""Estimate the seconds of an iteration, of a whole run and of a save.

If `plan.tflops_hardware` is set, it is the speed at the full batch. Otherwise the time is estimated from the GPU's row
in `gpus.toml` and an efficiency of matrix products. That efficiency is calibrated with BLOOM-176B's published iteration
time of 105.22 s. Expect an error of about 20 % for other models and machines.

Smaller batches are slower because of the pipeline bubble. With m micro-batches and p stages, an iteration takes the
time of m + p - 1 micro-batches, and a stage computes during m of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError
from bloomery.spec.batch import micro_batch_size, samples_of_time
from bloomery.spec.checkpoint_size import checkpoint_bytes
from bloomery.spec.communication import communication
from bloomery.spec.flops import iteration_flops
from bloomery.spec.hardware import Gpu, gpus
from bloomery.spec.parameters import planned_rows
from bloomery.spec.partition import stages
from bloomery.spec.reference_seconds import reference_seconds
from bloomery.spec.save_points import is_due, saves_until
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

KERNEL_EFFICIENCY = 0.761
"""Share of a GPU's peak that large matrix products and the work between them reach, calibrated with BLOOM-176B."""
HALF_EFFICIENT_WIDTH = 600
"""Width of one rank's part of a matrix at which the efficiency is half of its maximum. This is an assumption."""
HALF_EFFICIENT_TOKENS = 256
"""Tokens of a micro-batch at which the efficiency is half of its maximum. This is an assumption."""


def bubble_fraction(stages_count: int, micro_batches: int) -> float:
    """Return the share of an iteration during which a stage is idle: (p - 1) / (m + p - 1).

    The ratio of idle time to work is (p - 1) / m.
    """
    return (stages_count - 1) / (micro_batches + stages_count - 1)


def micro_batches(config: RunConfig, batch_samples: int) -> int:
    """Return the number of micro-batches of one replica in an iteration."""
    training = config.training
    return batch_samples // (micro_batch_size(training.batch, batch_samples) * training.parallel.data)


def has_speed(config: RunConfig) -> bool:
    """Return whether the configuration states enough to estimate times."""
    return config.plan.gpu is not None or config.plan.tflops_hardware is not None


def iteration_seconds(config: RunConfig, batch_samples: int, sequence_length: int | None = None) -> float:
    """Return the seconds of an iteration of `batch_samples` samples of `sequence_length` tokens.

    If `sequence_length` is None, the model's sequence length is used.

    Raises:
        ConfigError: the configuration states neither a GPU nor a speed.
    """
    if not has_speed(config):
        raise ConfigError(
            "neither a type of GPU nor its speed is set, so no time can be estimated",
            where="plan.gpu",
            expected="the name of a GPU, such as --gpu a100-80gb (`bloomery plan gpus` lists the names), or "
            "plan.tflops_hardware",
        )
    training = config.training
    full = training.batch.global_batch_size
    turns = micro_batches(config, batch_samples) + training.parallel.pipeline - 1
    estimate = turns * _turn_seconds(config, batch_samples, sequence_length) + _exchange_seconds(config)
    stated = config.plan.tflops_hardware
    if stated is None:
        return estimate
    whole = _hardware_flops(config, full, None) / (training.parallel.world_size * stated * 1e12)
    taken, full_taken = (samples_of_time(training.batch, training.parallel, size) for size in (batch_samples, full))
    exchange = min(_exchange_seconds(config), 0.5 * whole)
    work = _hardware_flops(config, batch_samples, sequence_length) / _hardware_flops(config, batch_samples, None)
    return exchange + (whole - exchange) * taken / full_taken * work


def _hardware_flops(config: RunConfig, batch_samples: int, sequence_length: int | None) -> float:
    return iteration_flops(
        config.model,
        planned_rows(config),
        batch_samples,
        recomputed=config.training.activation_checkpointing == "full",
        sequence_length=sequence_length,
    )


def _turn_seconds(config: RunConfig, batch_samples: int, sequence_length: int | None) -> float:
    """Return the seconds of one micro-batch, forward and backward, on the fullest stage; 0 without a GPU."""
    if config.plan.gpu is None:
        return 0.0
    gpu, training, model = gpus()[config.plan.gpu], config.training, config.model
    parallel = training.parallel
    width = model.hidden_size / parallel.tensor
    one = micro_batch_size(training.batch, batch_samples)
    tokens = one * (sequence_length or model.sequence_length)
    efficiency = KERNEL_EFFICIENCY * width / (width + HALF_EFFICIENT_WIDTH) * tokens / (tokens + HALF_EFFICIENT_TOKENS)
    parts = stages(model, training, planned_rows(config))
    blocks = model.layers + (model.decoder_layers or 0)
    # The share applies to all operations, including those of the output head, although only the last stage computes
    # them.
    share = max(stage.blocks for stage in parts) / blocks
    flops = _hardware_flops(config, one, sequence_length) * share / parallel.tensor
    sent = communication(config, one * parallel.data, sequence_length)
    inside = parallel.tensor <= config.plan.gpus_per_node
    work = flops / (gpu.peak_tflops * 1e12 * efficiency)
    return work + sent.tensor / _rate(config, gpu, inside) + sent.pipeline / _rate(config, gpu, inside=False)


def _rate(config: RunConfig, gpu: Gpu, inside: bool) -> float:
    """Return the bytes that one GPU can send to other GPUs in a second, inside its node or to other nodes."""
    network = config.plan.network_gb_per_second or gpu.network_gb_per_second
    return (gpu.node_gb_per_second if inside else network) * 1e9


def _exchange_seconds(config: RunConfig) -> float:
    """Return the seconds to exchange gradients and weights between replicas, once an iteration; 0 without a GPU."""
    if config.plan.gpu is None:
        return 0.0
    gpu, parallel = gpus()[config.plan.gpu], config.training.parallel
    inside = parallel.world_size <= config.plan.gpus_per_node
    return communication(config, config.training.batch.global_batch_size).data / _rate(config, gpu, inside)


def ladder_seconds(config: RunConfig) -> list[tuple[int, float]]:
    """Return (number of iterations, seconds of each) for each part of the run with equal steps, in order.

    Raises:
        ConfigError: the configuration states neither a GPU nor a speed.
    """
    extra = config.model.decoder_sequence_length or 0
    return [
        (each.steps, iteration_seconds(config, each.global_batch_size, each.sequence_length - extra))
        for each in trajectory(config.model, config.training).stretches
    ]


def save_seconds(config: RunConfig) -> float:
    """Return the seconds of one save.

    This is `plan.save_seconds`. If it is not set, it is the time to compute the reference (`reference_seconds`) and to
    write the checkpoint's bytes at `plan.write_gb_per_second`. It is 0 if neither is set.
    """
    plan = config.plan
    if plan.save_seconds is not None:
        return plan.save_seconds
    if plan.write_gb_per_second is not None:
        return reference_seconds(config) + checkpoint_bytes(config) / (plan.write_gb_per_second * 1e9)
    return 0.0


def work_seconds(config: RunConfig) -> float:
    """Return the seconds of all iterations and validations of a run that nothing interrupts.

    Raises:
        ConfigError: the configuration states neither a GPU nor a speed.
    """
    iterations = trajectory(config.model, config.training).iterations
    # A validation also follows the last iteration.
    checks = -(-iterations // config.training.validation.every_iterations)
    work = sum(steps * seconds for steps, seconds in ladder_seconds(config))
    return work + checks * config.plan.validation_seconds


def training_seconds(config: RunConfig) -> float:
    """Return the seconds of all iterations, validations and saves of a run that nothing interrupts.

    Raises:
        ConfigError: the configuration states neither a GPU nor a speed.
    """
    iterations, policy = trajectory(config.model, config.training).iterations, config.training.checkpoint
    # A save also follows the last iteration.
    saves = saves_until(policy, iterations) + (not is_due(policy, iterations))
    return work_seconds(config) + saves * save_seconds(config)
