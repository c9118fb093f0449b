"""Distribute the layers of a GPT over pipeline stages. The other families have one stage."""

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
    """Contents of one pipeline stage."""

    first: bool
    last: bool
    blocks: int
    parameters: int
    """Number of parameters that the stage holds, including its copies of tied parameters."""
    shard_parameters: int
    """Number of these parameters on one tensor-parallel rank."""

    def __str__(self) -> str:
        """Return a short form such as `embed|5`, `6` or `5|head`."""
        return "|".join([*(["embed"] if self.first else []), str(self.blocks), *(["head"] if self.last else [])])


def stages(model: ModelConfig, training: TrainingConfig, vocabulary_rows: int) -> tuple[Stage, ...]:
    """Return every stage, in order.

    The sum of `parameters` over all stages counts a tied embedding twice if two stages hold it.
    """
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
    """Return the first pipeline layer of each stage, followed by the number of layers.

    Stage s holds the layers [bounds[s], bounds[s + 1]). `method` is one of:

    - `parameters` minimises the largest number of parameters in a stage. The output head always counts as a matrix of
      the embedding's size, also if it is tied.
    - `uniform` distributes the blocks evenly.
    - `type:REGEX` evenly distributes the layers whose kind matches (`kinds`). Every other layer belongs to the stage of
      the layer before it.

    `parameters` and `uniform` give every stage at least one block. `partition_problem` reports if `type:REGEX` does
    not. On ties, the stages nearest the middle of the pipeline get the extra blocks.

    Raises:
        ValueError: fewer layers match `type:REGEX` than there are stages.
        re.error: REGEX is not a regular expression.
    """
    if model.family == "gpt" and method.startswith("type:"):
        return _of_kinds(model, stages, method.removeprefix("type:"))
    block_cost = sum(parameter.count for parameter in block_parameters(model, 0))
    embedding_cost = vocabulary_rows * model.hidden_size if method == "parameters" else 0
    if model.family != "gpt":
        return [0, layer_count(model)]
    # Stage s holds blocks [cut[s], cut[s + 1]). The first stage also holds both embedding layers. The last stage also
    # holds the final norm and the head.
    best = _best_cuts(model.layers, stages, block_cost, embedding_cost)
    return [0, *(FIRST_BLOCK_LAYER + cut for cut in best[1:-1]), layer_count(model)]


def kinds(model: ModelConfig) -> list[tuple[str, ...]]:
    """Return the kinds of each pipeline layer of a GPT. A tied head is both a head and an embedding."""
    head = ("head", "embedding") if model.tied_embeddings else ("head",)
    return [("embedding",), ("norm",), *([("transformer",)] * model.layers), ("norm",), head]


def partition_problem(model: ModelConfig, stages: int, method: str) -> str | None:
    """Return why `type:REGEX` cannot divide the layers of a GPT into `stages` stages.

    Return None if it can divide them, if `method` is not `type:REGEX`, or if the model is not a GPT.
    """
    if model.family != "gpt" or not method.startswith("type:"):
        return None
    try:
        bounds = _of_kinds(model, stages, method.removeprefix("type:"))
    except (re.error, ValueError) as error:
        return str(error)
    blocks = range(FIRST_BLOCK_LAYER, final_norm_layer(model))
    empty = [s for s, (first, end) in enumerate(pairwise(bounds)) if max(first, blocks.start) >= min(end, blocks.stop)]
    return f"pipeline stage {empty[0]} would have no transformer block" if empty else None


def _of_kinds(model: ModelConfig, stages: int, pattern: str) -> list[int]:
    # DeepSpeed's `type:` matches names of classes and ignores case.
    matching = [
        layer
        for layer, names in enumerate(kinds(model))
        if any(re.search(pattern, name, re.IGNORECASE) for name in names)
    ]
    if len(matching) < stages:
        raise ValueError(f"{len(matching)} layers match {pattern!r}, fewer than the {stages} pipeline stages")
    cuts = _best_cuts(len(matching), stages, 1, 0)
    return [0, *(matching[cut] for cut in cuts[1:-1]), layer_count(model)]


def _best_cuts(blocks: int, stages: int, block_cost: int, embedding_cost: int) -> list[int]:
    """Return the first block of each stage, followed by the number of blocks.

    The cuts minimise the largest cost of a stage, which is found by bisection.
    """
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
        # Give the block to the stage that stays cheapest. On ties, stages nearest the middle of the pipeline come
        # first.
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
    """Return every divisor of `number`, in ascending order."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
