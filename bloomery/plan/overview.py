"""What a run will be, by arithmetic alone: parameters, layout, iterations, tokens, operations, checkpoint size."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from bloomery.plan.batch import ladder_rungs, samples_to_read, total_iterations
from bloomery.plan.flops import iteration_flops
from bloomery.plan.parameters import (
    FIRST_BLOCK_LAYER,
    final_norm_layer,
    padded_vocabulary,
    parameter_count,
    stage_bounds,
)

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

CHECKPOINT_BYTES_PER_PARAMETER = {"bf16": 14, "fp32": 16}
"""bf16: 2 for the weight, 4 for the master weight, 8 for Adam's moments (BLOOM-176B: 2.3 TB); fp32: DeepSpeed keeps its
own flat copy of the weights beside them."""


@dataclass(frozen=True)
class Overview:
    """Figures of a run before it starts. The vocabulary is the configured one: a small corpus may give a smaller."""

    parameters: int
    vocabulary_rows: int
    world_size: int
    stages: list[str]
    """What each pipeline stage holds, such as `embed|2` (embedding and two blocks), `6`, `5|head`."""
    iterations: int
    samples: int
    tokens: int
    batches: list[int]
    """Global batch sizes that the run passes through."""
    model_flops: float
    """Operations that the whole training needs, without recomputation."""
    checkpoint_bytes: int


def overview(config: RunConfig) -> Overview:
    """Figures of `config`."""
    model, training = config.model, config.training
    rows = padded_vocabulary(config.tokenizer.vocabulary_size, model, training.parallel.tensor)
    samples = samples_to_read(training.batch, training.train_samples)
    parameters = parameter_count(model, rows)
    return Overview(
        parameters=parameters,
        vocabulary_rows=rows,
        world_size=training.parallel.world_size,
        stages=describe_stages(config, rows),
        iterations=total_iterations(training.batch, training.train_samples),
        samples=samples,
        tokens=samples * model.sequence_length,
        batches=ladder_rungs(training.batch),
        model_flops=iteration_flops(model, rows, samples, recomputed=False),
        checkpoint_bytes=parameters * CHECKPOINT_BYTES_PER_PARAMETER[training.precision],
    )


def describe_stages(config: RunConfig, rows: int) -> list[str]:
    """Blocks of each pipeline stage, with the embedding and the head where they lie."""
    training = config.training
    bounds = stage_bounds(config.model, rows, training.parallel.pipeline, training.partition)
    described = []
    for first, end in pairwise(bounds):
        blocks = min(end, final_norm_layer(config.model)) - max(first, FIRST_BLOCK_LAYER)
        ends = (["embed"] if first == 0 else [], ["head"] if end == bounds[-1] else [])
        described.append("|".join([*ends[0], str(blocks), *ends[1]]))
    return described
