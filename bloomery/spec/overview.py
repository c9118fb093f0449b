"""Summarise a run before it starts: parameters, layout, iterations, tokens, operations, checkpoint size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.batch import ladder_rungs
from bloomery.spec.checkpoint_size import checkpoint_bytes
from bloomery.spec.flops import iteration_flops
from bloomery.spec.parameters import parameter_count, planned_rows
from bloomery.spec.partition import stages
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


@dataclass(frozen=True)
class Overview:
    """Figures of a run before it starts. They assume the configured vocabulary, and a small corpus may yield a smaller
    one."""

    parameters: int
    vocabulary_rows: int
    world_size: int
    stages: list[str]
    """Contents of each pipeline stage, such as `embed|2` (embedding and two blocks), `6` or `5|head`."""
    iterations: int
    samples: int
    tokens: int
    batches: list[int]
    """Global batch sizes that the run uses, in ascending order."""
    model_flops: float
    """Floating-point operations of the whole training, without recomputation."""
    checkpoint_bytes: int


def overview(config: RunConfig) -> Overview:
    """Return the figures of `config`."""
    model, training, rows = config.model, config.training, planned_rows(config)
    run = trajectory(model, training)
    extra = model.decoder_sequence_length or 0
    return Overview(
        parameters=parameter_count(model, rows),
        vocabulary_rows=rows,
        world_size=training.parallel.world_size,
        stages=[str(stage) for stage in stages(model, training, rows)],
        iterations=run.iterations,
        samples=run.end.consumed_samples,
        tokens=run.end.consumed_tokens,
        batches=ladder_rungs(training.batch),
        model_flops=sum(
            each.steps
            * iteration_flops(
                model,
                rows,
                each.global_batch_size,
                recomputed=False,
                sequence_length=each.sequence_length - extra,
            )
            for each in run.stretches
        ),
        checkpoint_bytes=checkpoint_bytes(config),
    )
