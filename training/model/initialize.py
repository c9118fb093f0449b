"""Draw initial weights. Each rank draws only the elements of its shards.

An element depends only on the seed, the parameter's name and the element's position in the whole parameter. So the
initial weights do not depend on the layout, and no rank draws a whole parameter to keep a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bloomery.base.digest import seed_for
from bloomery.base.normal_numbers import normal_numbers
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Initializer, Parameter
from training.model.pipeline import BloomPipeline
from training.parallel.mesh import Mesh

_CHUNK = 1 << 22
"""Largest number of elements that are drawn at a time: 16 MiB in fp32."""


def draw(
    parameter: Parameter, model: ModelConfig, seed: int, tensor_rank: int = 0, tensor_size: int = 1
) -> torch.Tensor:
    """Return the initial values of a shard of a parameter, fp32 on the CPU.

    Args:
        parameter: declaration of the whole parameter.
        model: model that the parameter belongs to.
        seed: seed of the run.
        tensor_rank: number of the shard.
        tensor_size: number of shards. With 1, the whole parameter is returned.
    """
    shard = torch.empty(parameter.shard_shape(tensor_size))
    _fill(shard, parameter, model, seed, tensor_rank, tensor_size)
    return shard


@torch.no_grad()
def initialize(network: BloomPipeline, mesh: Mesh, model: ModelConfig, vocabulary_rows: int, seed: int) -> None:
    """Set the initial values of every parameter of this stage, and of this rank's fp32 master weights if an optimizer
    of DeepSpeed keeps them.

    Every parameter must be declared (`bloomery.spec.parameters.declare`).
    """
    modules = network.local_modules()
    filled: set[int] = set()
    for parameter in declare(model, vocabulary_rows):
        owners = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if not owners:
            continue
        target = modules[owners[0]].get_parameter(parameter.local_name)
        _fill(target.data, parameter, model, seed, mesh.tensor_rank, mesh.tensor_size)
        _fill_master(target)
        filled.add(id(target))
    left = [name for name, value in network.named_parameters() if id(value) not in filled]
    assert not left, f"parameters of the network that are not declared in bloomery/spec: {left}"


def _fill(target: torch.Tensor, parameter: Parameter, model: ModelConfig, seed: int, rank: int, size: int) -> None:
    """Set `target`, of any data type and device, to the initial values of the shard `rank` of `size`."""
    assert target.shape == parameter.shard_shape(size)
    if parameter.initializer in (Initializer.ONES, Initializer.ZEROS):
        target.fill_(float(parameter.initializer is Initializer.ONES))
        return
    deviation = model.standard_deviation
    if parameter.initializer is Initializer.OUTPUT_NORMAL:
        deviation /= math.sqrt(2.0 * model.layers)
    key, flat, filled = seed_for(seed, parameter.name), target.view(-1), 0
    for starts, length in _runs(parameter, rank, size):
        numbers = torch.from_numpy(normal_numbers(key, starts, length, deviation))
        flat[filled : filled + numbers.numel()].copy_(numbers.reshape(-1))
        filled += numbers.numel()
    assert filled == target.numel()


def _runs(parameter: Parameter, rank: int, size: int) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.int64]], int]]:
    """Yield the shard's elements, in order, as runs of consecutive elements of the whole parameter.

    Each item has the first positions of one or more runs, and the length of each run. The runs of an item have at most
    `_CHUNK` elements together.
    """
    dimension = parameter.placement.dimension or 0
    shard, inner = parameter.shard_shape(size), math.prod(parameter.shape[dimension + 1 :])
    run, stride = shard[dimension] * inner, parameter.shape[dimension] * inner
    offset = run * rank if parameter.placement.dimension is not None else 0
    runs = math.prod(parameter.shape[:dimension])
    rows = max(1, _CHUNK // run)
    for first in range(0, runs, rows):
        starts = np.arange(first, min(first + rows, runs), dtype=np.int64) * stride + offset
        for done in range(0, run, _CHUNK):
            yield starts + done, min(_CHUNK, run - done)


def _fill_master(weight: torch.nn.Parameter) -> None:
    """Copy a weight to this rank's part of its fp32 master weight, if DeepSpeed's optimizer has made one."""
    mapping: Any = getattr(weight, "_hp_mapping", None)
    if mapping is not None:
        part = mapping.lp_fragment_address
        mapping.hp_fragment.data.copy_(weight.data.view(-1).narrow(0, part.start, part.numel))
