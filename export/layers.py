"""Group the tensors of a model by pipeline layer, and load each group in the order of transformers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bloomery.spec.placement import Placement
from export.transform import to_transformers
from export.write_weights import Layer, Tensor

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter
    from bloomery.spec.transformers_families.family import Family
    from export.weight_memory import WeightMemory


class WeightSource(Protocol):
    """A checkpoint that gives whole parameters."""

    def another_reader(self) -> WeightSource:
        """Return a reader for another thread."""
        ...

    def close(self) -> None:
        """Close the files of the layer that was read last."""
        ...

    def weight(self, parameter: Parameter, dtype: torch.dtype, *, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the contiguous parameter in `dtype`, in the memory `out` or in new memory."""
        ...


def layers_of(
    source: WeightSource, declared: Iterable[Parameter], heads: int, family: Family, dtype: str, rows: int
) -> list[Layer]:
    """Return the tensors to write, grouped by the pipeline layer whose files hold them.

    Args:
        source: the checkpoint.
        declared: parameters of the network.
        heads: number of attention heads.
        family: table of the model's family in transformers.
        dtype: data type of the written tensors, such as `bfloat16`.
        rows: rows of the written embedding. The rows after them are dropped.
    """
    grouped: dict[int, list[Parameter]] = {}
    for parameter in declared:
        grouped.setdefault(parameter.layer, []).append(parameter)
    layers = []
    for parameters in grouped.values():
        tensors = []
        for parameter in parameters:
            trimmed = parameter.placement is Placement.VOCABULARY
            shape = (rows, *parameter.shape[1:]) if trimmed else parameter.shape
            target = family.target(parameter)
            tensors.append(Tensor(family.saved_name(target.name), target.shape(shape)))
        load = partial(_load, source, tuple(parameters), heads, family, dtype, rows)
        layers.append(Layer(tuple(tensors), load, tuple(parameter.count for parameter in parameters)))
    return layers


def _load(
    source: WeightSource,
    parameters: tuple[Parameter, ...],
    heads: int,
    family: Family,
    dtype: str,
    rows: int,
    memory: WeightMemory,
) -> list[torch.Tensor]:
    """Load the parameters of one pipeline layer in the order of transformers. Threads call this at the same time."""
    import torch

    reader, found = source.another_reader(), []
    for parameter in parameters:
        out = memory.take(parameter.shape, getattr(torch, dtype))
        weight = reader.weight(parameter, out.dtype, out=out)
        if parameter.placement is Placement.VOCABULARY:
            weight = weight[:rows]
        tensor = to_transformers(weight, family.target(parameter).transform, heads)
        if tensor.untyped_storage().data_ptr() != out.untyped_storage().data_ptr():
            memory.give(out)
        found.append(tensor)
    reader.close()
    return found
