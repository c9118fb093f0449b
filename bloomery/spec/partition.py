"""Distribute the layers over pipeline stages (GPT; the other families have one stage)."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from bloomery.spec.gpt import FIRST_BLOCK_LAYER, block_parameters, final_norm_layer
from bloomery.spec.parameters import declare, layer_count

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig
    from bloomery.spec.placement import Parameter


@dataclass(frozen=True)
class Stage:
    """What one pipeline stage holds."""

    first: bool
    last: bool
    blocks: int
    parameters: int
    """Parameters of the stage, tied ones included wherever they live."""
    shard_parameters: int
    """Of these, on one tensor-parallel rank."""

    def __str__(self) -> str:
        """Such as `embed|5`, `6` or `5|head`."""
        return "|".join([*(["embed"] if self.first else []), str(self.blocks), *(["head"] if self.last else [])])


def stages(model: ModelConfig, training: TrainingConfig, vocabulary_rows: int) -> tuple[Stage, ...]:
    """Every stage, in order. Sums of `parameters` over stages count a tied embedding twice where it lives twice."""
    parallel = training.parallel
    return _stages(model, vocabulary_rows, parallel.tensor, parallel.pipeline, training.partition)


@lru_cache(maxsize=1024)
def _stages(model: ModelConfig, vocabulary_rows: int, tensor: int, pipeline: int, method: str) -> tuple[Stage, ...]:
    bounds = stage_bounds(model, vocabulary_rows, pipeline, method)
    held: list[list[Parameter]] = [[] for _ in bounds[1:]]
    for parameter in declare(model, vocabulary_rows):
        for stage in {bisect_right(bounds, layer) - 1 for layer in (parameter.layer, *parameter.tied_layers)}:
            held[stage].append(parameter)
    found = []
    for (first, end), parameters in zip(pairwise(bounds), held, strict=True):
        blocks = model.layers + (model.decoder_layers or 0)
        if model.family == "gpt":
            blocks = min(end, final_norm_layer(model)) - max(first, FIRST_BLOCK_LAYER)
        found.append(
            Stage(
                first=first == 0,
                last=end == bounds[-1],
                blocks=blocks,
                parameters=sum(each.count for each in parameters),
                shard_parameters=sum(math.prod(each.shard_shape(tensor)) for each in parameters),
            )
        )
    return tuple(found)


def stage_bounds(model: ModelConfig, vocabulary_rows: int, stages: int, method: str) -> list[int]:
    """First pipeline layer of each stage and the layer count at the end: stage s holds [bounds[s], bounds[s + 1]).

    `parameters` balances real cost: the head costs a matrix product of the embedding's size. `uniform` distributes
    the blocks evenly. Every stage gets at least one block; the least greatest stage wins, earlier cuts later on ties.
    `type:REGEX` distributes the layers whose kind matches evenly (`kinds`); the others stay with the one before them.
    Raises ValueError for what `partition_problem` says.
    """
    if model.family == "gpt" and method.startswith("type:"):
        return _of_kinds(model, stages, method.removeprefix("type:"))
    block_cost = sum(parameter.count for parameter in block_parameters(model, 0))
    embedding_cost = vocabulary_rows * model.hidden_size if method == "parameters" else 0
    if model.family != "gpt":
        return [0, layer_count(model)]
    # Stage s takes blocks [cut[s], cut[s + 1]); the first also holds both embedding layers, the last norm and head.
    best = _best_cuts(model.layers, stages, block_cost, embedding_cost)
    return [0, *(FIRST_BLOCK_LAYER + cut for cut in best[1:-1]), layer_count(model)]


def kinds(model: ModelConfig) -> list[tuple[str, ...]]:
    """What each pipeline layer of a GPT is; a tied head is both a head and an embedding."""
    head = ("head", "embedding") if model.tied_embeddings else ("head",)
    return [("embedding",), ("norm",), *([("transformer",)] * model.layers), ("norm",), head]


def partition_problem(model: ModelConfig, stages: int, method: str) -> str | None:
    """Why `type:REGEX` cannot cut the layers of a GPT into so many stages; None if it can, or for another method."""
    if model.family != "gpt" or not method.startswith("type:"):
        return None
    try:
        bounds = _of_kinds(model, stages, method.removeprefix("type:"))
    except (re.error, ValueError) as error:
        return str(error)
    blocks = range(FIRST_BLOCK_LAYER, final_norm_layer(model))
    empty = [s for s, (first, end) in enumerate(pairwise(bounds)) if max(first, blocks.start) >= min(end, blocks.stop)]
    return f"stage {empty[0]} would have no transformer block" if empty else None


def _of_kinds(model: ModelConfig, stages: int, pattern: str) -> list[int]:
    # DeepSpeed's `type:` matches names of classes, in whatever case.
    matching = [
        layer
        for layer, names in enumerate(kinds(model))
        if any(re.search(pattern, name, re.IGNORECASE) for name in names)
    ]
    if len(matching) < stages:
        raise ValueError(f"{len(matching)} layers match, fewer than {stages} stages")
    cuts = _best_cuts(len(matching), stages, 1, 0)
    return [0, *(matching[cut] for cut in cuts[1:-1]), layer_count(model)]


def _best_cuts(blocks: int, stages: int, block_cost: int, embedding_cost: int) -> list[int]:
    """Blocks per stage by the least greatest cost, found by bisection over the answer (it is a number of blocks)."""
    if stages == 1:
        return [0, blocks]

    def capacity(limit: int) -> list[int]:
        ends = max(1, (limit - embedding_cost) // block_cost)
        middle = max(1, limit // block_cost)
        return [ends, *([middle] * (stages - 2)), ends]

    low, high = 0, blocks * block_cost + embedding_cost
    while low < high:
        limit = (low + high) // 2
        if sum(capacity(limit)) >= blocks:
            high = limit
        else:
            low = limit + 1
    room = capacity(low)
    counts = [1] * stages
    for _ in range(blocks - stages):
        # Fill the stage that stays cheapest; the middle of the pipeline first on ties.
        costs = [
            ((counts[s] + 1) * block_cost + (embedding_cost if s in (0, stages - 1) else 0), abs(2 * s - stages + 1), s)
            for s in range(stages)
            if counts[s] < room[s]
        ]
        counts[min(costs)[2]] += 1
    cuts = [0]
    for count in counts:
        cuts.append(cuts[-1] + count)
    return cuts


def divisors(number: int) -> list[int]:
    """Every divisor, ascending."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
