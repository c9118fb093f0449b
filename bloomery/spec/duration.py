"""Seconds of an iteration, of a run, of a save.

A stated `plan.tflops_hardware` holds at the full batch. Without it the time is estimated from the GPU's table row and
one efficiency of matrix products, calibrated with BLOOM-176B's published 105.22 s; elsewhere take it for +-20 %.
Smaller batches are slower by the pipeline's bubble: a stage works for m micro-batches of m + p - 1 turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError
from bloomery.spec.batch import micro_batch_size, samples_of_time
from bloomery.spec.communication import communication
from bloomery.spec.disk import checkpoint_bytes
from bloomery.spec.flops import iteration_flops
from bloomery.spec.hardware import Gpu, gpus
from bloomery.spec.parameters import planned_rows
from bloomery.spec.partition import stages
from bloomery.spec.save_points import is_due, saves_until
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

KERNEL_EFFICIENCY = 0.761
"""Share of the peak that large matrix products, and all that lies between them, reach; calibrated as said above."""
HALF_EFFICIENT_WIDTH = 600
"""Width of a matrix's part on one rank at which the efficiency is half: an assumption."""
HALF_EFFICIENT_TOKENS = 256
"""Tokens of a micro-batch at which the efficiency is half: an assumption."""


def bubble_fraction(stages_count: int, micro_batches: int) -> float:
    """Share of an iteration that a stage waits: (p - 1) / (m + p - 1). Over the work alone it is (p - 1) / m."""
    return (stages_count - 1) / (micro_batches + stages_count - 1)


def micro_batches(config: RunConfig, batch_samples: int) -> int:
    """Micro-batches of one replica in an iteration."""
    training = config.training
    return batch_samples // (micro_batch_size(training.batch, batch_samples) * training.parallel.data)


def has_speed(config: RunConfig) -> bool:
    """Whether the plan knows enough to tell times."""
    return config.plan.gpu is not None or config.plan.tflops_hardware is not None


def iteration_seconds(config: RunConfig, batch_samples: int, sequence_length: int | None = None) -> float:
    """Seconds of an iteration of `batch_samples` samples of `sequence_length` tokens (None: the model's).

    Raises:
        ConfigError: neither a GPU nor its speed is given.
    """
    if not has_speed(config):
        raise ConfigError(
            "neither a GPU nor its speed is given, so no time can be told",
            where="plan.gpu",
            expected="a GPU (`bloomery plan gpus` lists them; --gpu a100-80gb) or plan.tflops_hardware",
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
    """One micro-batch of a batch, forward and backward, on the fullest stage; 0 without a GPU."""
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
    # The head's product is as large as the embedding; only the last stage has it, the first has none.
    share = max(stage.blocks for stage in parts) / blocks
    flops = _hardware_flops(config, one, sequence_length) * share / parallel.tensor
    sent = communication(config, one * parallel.data, sequence_length)
    inside = parallel.tensor <= config.plan.gpus_per_node
    work = flops / (gpu.peak_tflops * 1e12 * efficiency)
    return work + sent.tensor / _rate(config, gpu, inside) + sent.pipeline / _rate(config, gpu, inside=False)


def _rate(config: RunConfig, gpu: Gpu, inside: bool) -> float:
    """Bytes a second from one GPU to others, inside its node or to other nodes."""
    network = config.plan.network_gb_per_second or gpu.network_gb_per_second
    return (gpu.node_gb_per_second if inside else network) * 1e9


def _exchange_seconds(config: RunConfig) -> float:
    """Gradients and weights over the replicas, once an iteration; 0 without a GPU."""
    if config.plan.gpu is None:
        return 0.0
    gpu, parallel = gpus()[config.plan.gpu], config.training.parallel
    inside = parallel.world_size <= config.plan.gpus_per_node
    return communication(config, config.training.batch.global_batch_size).data / _rate(config, gpu, inside)


def ladder_seconds(config: RunConfig) -> list[tuple[int, float]]:
    """(iterations, seconds of each) over the whole run, in order. Raises ConfigError as `iteration_seconds`."""
    extra = config.model.decoder_sequence_length or 0
    return [
        (each.steps, iteration_seconds(config, each.global_batch_size, each.sequence_length - extra))
        for each in trajectory(config.model, config.training).stretches
    ]


def save_seconds(config: RunConfig) -> float:
    """Seconds of one save: as stated, or the checkpoint's bytes over the stated rate; 0 where neither is known."""
    plan = config.plan
    if plan.save_seconds is not None:
        return plan.save_seconds
    if plan.write_gb_per_second is not None:
        return checkpoint_bytes(config) / (plan.write_gb_per_second * 1e9)
    return 0.0


def work_seconds(config: RunConfig) -> float:
    """Iterations and validations of a run that nothing interrupts. Raises ConfigError as `iteration_seconds`."""
    iterations = trajectory(config.model, config.training).iterations
    checks = -(-iterations // config.training.validation.every_iterations)  # and one at the end
    work = sum(steps * seconds for steps, seconds in ladder_seconds(config))
    return work + checks * config.plan.validation_seconds


def training_seconds(config: RunConfig) -> float:
    """The run's work and its saves. Raises ConfigError as `iteration_seconds`."""
    iterations, policy = trajectory(config.model, config.training).iterations, config.training.checkpoint
    saves = saves_until(policy, iterations) + (not is_due(policy, iterations))  # and one at the end
    return work_seconds(config) + saves * save_seconds(config)
