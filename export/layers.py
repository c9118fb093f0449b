"""Group the tensors of a model by pipeline layer, and load each group in the order of transformers.

The embedding and an untied head can be several times as large as a block. They are therefore loaded in slices of their
rows. Several threads can load slices of the same layer at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bloomery.spec.placement import Placement
from bloomery.spec.transformers_families.family import Transform
from bloomery.spec.weight_files import DTYPE_BYTES
from bloomery.spec.writing_memory import SLICE_BYTES, row_slices
from export.transform import to_transformers
from export.write_weights import Load, Tensor

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter
    from bloomery.spec.transformers_families.family import Family
    from export.weight_memory import WeightMemory


class WeightSource(Protocol):
    """A checkpoint that gives whole parameters, or some of their rows."""

    @property
    def is_mapped(self) -> bool:
        """Whether the files are mapped. If not, each reader reads whole files into memory."""
        ...

    def another_reader(self) -> WeightSource:
        """Return a reader for another thread."""
        ...

    def close(self, *, forget: bool = True) -> None:
        """Close the files that were read. If `forget` is true, let the system forget their content."""
        ...

    def weight(
        self,
        parameter: Parameter,
        dtype: torch.dtype,
        wanted: range | None = None,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the contiguous parameter in `dtype`, or only the indices `wanted` of its split dimension.

        The result is in the memory `out` or in new memory.
        """
        ...


def loads_of(
    source: WeightSource,
    declared: Iterable[Parameter],
    heads: int,
    family: Family,
    dtype: str,
    rows: int,
    *,
    by_tensor: bool = False,
    slice_bytes: int = SLICE_BYTES,
) -> list[Load]:
    """Return the tensors to write, grouped by the pipeline layer whose files hold them.

    The embedding and an untied head, which have pipeline layers of their own, are divided into slices if the files are
    mapped.

    Args:
        source: the checkpoint.
        declared: parameters of the network.
        heads: number of attention heads.
        family: table of the model's family in transformers.
        dtype: data type of the written tensors, such as `bfloat16`.
        rows: rows of the written embedding. The rows after them are read and checked, but not written.
        by_tensor: whether the tensors of a layer are loaded one by one, which needs less memory and opens the layer's
            files more often.
        slice_bytes: largest size of a slice.
    """
    loader = _Loader(source, heads, family, dtype, rows)
    grouped: dict[int, list[Parameter]] = {}
    for parameter in declared:
        grouped.setdefault(parameter.layer, []).append(parameter)
    loads = []
    for parameters in grouped.values():
        first = parameters[0]
        if first.placement is Placement.VOCABULARY:
            assert len(parameters) == 1, f"{first.name} has its own layer"
            item_bytes = DTYPE_BYTES[dtype]
            loads += loader.slices(first, row_slices(first, item_bytes, slice_bytes, is_mapped=source.is_mapped))
        else:
            loads += loader.tensors(parameters) if by_tensor else [loader.layer(tuple(parameters))]
    return loads


@dataclass(frozen=True)
class _Loader:
    """Loads parameters of a checkpoint in the order of transformers. Threads call it at the same time."""

    source: WeightSource
    heads: int
    family: Family
    dtype: str
    rows: int

    def layer(self, parameters: tuple[Parameter, ...]) -> Load:
        """Return the load of all parameters of a layer."""
        tensors = tuple(self._tensor(parameter, parameter.shape) for parameter in parameters)
        return Load(tensors, partial(self._load_whole, parameters, True), tuple(each.count for each in tensors))

    def tensors(self, parameters: list[Parameter]) -> list[Load]:
        """Return a load for each parameter of a layer.

        Their memory is not reused. Otherwise, the memory that waits for tensors of other sizes would be as large as a
        layer.
        """
        last = parameters[-1]
        return [
            Load((self._tensor(each, each.shape),), partial(self._load_whole, (each,), each is last), ())
            for each in parameters
        ]

    def slices(self, parameter: Parameter, slices: list[range]) -> list[Load]:
        """Return the loads of slices of a parameter, which together are all of its rows.

        The last slice takes as much memory as the others, although it may have fewer rows. Otherwise, its memory would
        be kept in addition, for the last slice of the head.
        """
        taken_rows, row_shape = len(slices[0]), parameter.shape[1:]
        whole = self._tensor(parameter, (self.rows, *row_shape))
        return [
            Load(
                (whole,) if wanted.start == 0 else (),
                partial(self._load_slice, parameter, wanted, taken_rows),
                (taken_rows * math.prod(row_shape),),
            )
            for wanted in slices
        ]

    def _tensor(self, parameter: Parameter, shape: tuple[int, ...]) -> Tensor:
        target = self.family.target(parameter)
        return Tensor(self.family.saved_name(target.name), target.shape(shape))

    def _load_whole(self, parameters: tuple[Parameter, ...], forget: bool, memory: WeightMemory) -> list[torch.Tensor]:
        import torch

        reader, found = self.source.another_reader(), []
        for parameter in parameters:
            target = self.family.target(parameter)
            out = memory.take(target.shape(parameter.shape), getattr(torch, self.dtype))
            if target.transform is Transform.NONE:
                reader.weight(parameter, out.dtype, out=out)
            else:
                to_transformers(reader.weight(parameter, out.dtype), target.transform, self.heads, out=out)
            found.append(out)
        reader.close(forget=forget)
        return found

    def _load_slice(
        self, parameter: Parameter, wanted: range, taken_rows: int, memory: WeightMemory
    ) -> list[torch.Tensor]:
        import torch

        reader = self.source.another_reader()
        out = memory.take((taken_rows, *parameter.shape[1:]), getattr(torch, self.dtype))[: len(wanted)]
        reader.weight(parameter, out.dtype, wanted, out=out)
        # Other threads may read earlier slices from the same files. If the system forgot the files after each slice,
        # they would be read again and again.
        reader.close(forget=wanted.stop == parameter.shape[0])
        if wanted.start < self.rows:
            return [out[: self.rows - wanted.start]]
        memory.give(out)
        return []
