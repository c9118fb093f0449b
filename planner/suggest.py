"""Rank the possible layouts of a model on a number of GPUs by estimated speed, and state why other layouts are
impossible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes
from bloomery.spec.duration import bubble_fraction, iteration_seconds, micro_batches
from bloomery.spec.memory import memory, usable_bytes
from bloomery.spec.partition import divisors, partition_problem
from planner.planned_state import speed_at, state_at

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_MICRO_BATCHES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Layout:
    """One layout of a training. `reason` states why it is impossible, and is None if it is possible."""

    tensor: int
    pipeline: int
    data: int
    micro_batch_size: int
    activation_checkpointing: str
    reason: str | None = None
    seconds_per_iteration: float = 0.0
    tflops_hardware: float = 0.0
    tflops_model: float = 0.0
    memory_bytes: int = 0
    """Memory of one GPU of the fullest stage."""
    bubble_fraction: float = 0.0


def suggest(config: RunConfig, gpu_count: int, memory_bytes: int, batch_samples: int) -> list[Layout]:
    """Return every layout of exactly `gpu_count` GPUs with `memory_bytes` each and a global batch of `batch_samples`.

    Possible layouts come first, fastest first. The rejected layouts follow, each with its reason. Speeds are estimates
    (`bloomery.spec.duration`) for `plan.gpu`, which must be set.
    """
    found = [_judge(config, layout, memory_bytes, batch_samples) for layout in _layouts(config, gpu_count)]
    return sorted(found, key=lambda each: (each.reason is not None, -each.tflops_model, each.memory_bytes))


def _layouts(config: RunConfig, gpu_count: int) -> Iterator[Layout]:
    widest = min(gpu_count, config.plan.gpus_per_node)
    for tensor in (size for size in divisors(gpu_count) if size <= widest):
        rest = gpu_count // tensor
        for pipeline in divisors(rest):
            for micro in _MICRO_BATCHES:
                for recomputed in ("none", "selective", "full"):
                    yield Layout(tensor, pipeline, rest // pipeline, micro, recomputed)


def _judge(config: RunConfig, layout: Layout, memory_bytes: int, batch_samples: int) -> Layout:
    if reason := _impossible(config, layout, batch_samples):
        return replace(layout, reason=reason)
    tried = _with_layout(config, layout, batch_samples)
    worst = max(memory(tried), key=lambda stage: stage.total)
    layout = replace(layout, memory_bytes=worst.total)
    if worst.total > usable_bytes(memory_bytes):
        room = format_bytes(usable_bytes(memory_bytes))
        reason = (
            f"pipeline stage {worst.stage} needs {format_bytes(worst.total)} of GPU memory, but only {room} can be used"
        )
        return replace(layout, reason=reason)
    seconds = iteration_seconds(tried, batch_samples)
    speed = speed_at(tried, state_at(tried, iteration=1), seconds)
    return replace(
        layout,
        seconds_per_iteration=seconds,
        tflops_hardware=speed.tflops_hardware,
        tflops_model=speed.tflops_model,
        bubble_fraction=bubble_fraction(layout.pipeline, micro_batches(tried, batch_samples)),
    )


def _impossible(config: RunConfig, layout: Layout, batch_samples: int) -> str | None:
    model, tensor, pipeline = config.model, layout.tensor, layout.pipeline
    rows, unit = model.padded_vocabulary_size, layout.micro_batch_size * layout.data
    checks = {
        f"{model.heads} attention heads cannot be divided by the tensor-parallel size {tensor}": model.heads % tensor
        != 0,
        f"the feed-forward size {model.ffn_size} cannot be divided by the tensor-parallel size {tensor}": model.ffn_size
        % tensor
        != 0,
        f"{rows} embedding rows are not divisible by vocabulary_multiple x tensor-parallel size = "
        f"{model.vocabulary_multiple * tensor}": rows is not None and rows % (model.vocabulary_multiple * tensor) != 0,
        f"{model.layers} layers cannot fill {pipeline} pipeline stages": pipeline > model.layers,
        f"the layers of a {model.family} model cannot be divided over pipeline stages": model.family != "gpt"
        and pipeline > 1,
        f"global batch size {batch_samples} is not divisible by micro-batch size x data-parallel size = {unit}": (
            batch_samples % unit != 0
        ),
    }
    reason = next((reason for reason, fails in checks.items() if fails), None)
    return reason or partition_problem(model, pipeline, config.training.partition)


def _with_layout(config: RunConfig, layout: Layout, batch_samples: int) -> RunConfig:
    """Return `config` with this layout and a constant batch size. Any stated speed is removed, so that the speed is
    estimated."""
    training = config.training
    parallel = training.parallel.model_copy(
        update={
            "tensor": layout.tensor,
            "pipeline": layout.pipeline,
            "data": layout.data,
            "sequence_parallel": training.parallel.sequence_parallel and layout.tensor > 1,
        }
    )
    batch = training.batch.model_copy(
        update={
            "micro_batch_size": layout.micro_batch_size,
            "micro_batch_changes": (),
            "global_batch_size": batch_samples,
            "rampup": None,
        }
    )
    changed = training.model_copy(
        update={
            "parallel": parallel,
            "batch": batch,
            "activation_checkpointing": layout.activation_checkpointing,
            "train_samples": max(training.train_samples, batch_samples),
            "curriculum": None,
        }
    )
    plan = config.plan.model_copy(update={"tflops_hardware": None})
    return config.model_copy(update={"training": changed, "plan": plan})
