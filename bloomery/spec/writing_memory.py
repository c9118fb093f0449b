"""Compute the memory that holds the weights of a model while they are written, and the number of loading threads.

Large embeddings are loaded in slices. The number of threads is chosen so that the memory obeys the limit
`WritingMemory.limit_bytes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.placement import Placement
from bloomery.spec.transformers_families.choose import exact_family
from bloomery.spec.weight_files import DTYPE_BYTES, PRECISION_DTYPES, export_dtype, plan_shards, rounded_dtype

if TYPE_CHECKING:
    from bloomery.config.delivery import ExportConfig
    from bloomery.config.model import ModelConfig
    from bloomery.spec.placement import Parameter
    from bloomery.spec.transformers_families.family import Family

SLICE_BYTES = 1 << 27
"""Largest size of a slice of the embedding."""

_MOST_WRITER_THREADS = 2
"""Largest number of threads that load layers while another layer is written. More threads do not make a disk faster."""
_LEAST_SLICES = 4
"""Smallest number of slices of an embedding. With one slice, a small network would exceed the limit."""


@dataclass(frozen=True, kw_only=True)
class WritingMemory:
    """Memory that holds the weights of a model while they are written.

    Each thread loads a layer or a slice of the embedding, and one more layer or slice is written. If this exceeds the
    limit even with one thread, the tensors of a layer are loaded one by one.
    """

    parameters: Sequence[Parameter]
    """All parameters of the network."""
    rows: int
    """Number of rows of the written embedding."""
    item_bytes: int
    """Size of an element in the written files."""
    stored_bytes: int
    """Size of an element in the checkpoint's weights."""
    has_masters: bool
    """Whether the fp32 master weights are written, after they are compared with the checkpoint's weights."""
    copies: int
    """Number of temporary copies, in the type of the written files, that a thread makes of a tensor while it loads it.
    The embedding is not copied."""
    max_shard_bytes: int
    """Largest size of a weight file. Only a file of one tensor may be larger."""
    is_mapped: bool = True
    """Whether the files of the checkpoint are mapped. If not, each thread holds the whole files of its layer in memory.
    The embedding is then one slice, and layers are always loaded as a whole, so that no file is read several times."""
    is_rounded: bool = False
    """Whether a thread makes a rounded copy of each tensor or slice before it loads it."""
    has_tied_copies: bool = True
    """Whether the copies of a tied embedding in other layers are compared with it."""

    @property
    def threads(self) -> int:
        """Number of threads that load layers: the largest number that obeys the limit, but at least one."""
        fitting = [count for count in range(1, _MOST_WRITER_THREADS + 1) if self.bytes_with(count) <= self.limit_bytes]
        return max(fitting, default=1)

    @property
    def by_tensor(self) -> bool:
        """Whether the tensors of a layer are loaded one by one, because whole layers would exceed the limit."""
        return self.is_mapped and self._bytes(1, self._largest_layer) > self.limit_bytes

    @property
    def limit_bytes(self) -> int:
        """Limit of the memory: the largest layer or slice in fp32, and the largest weight file."""
        sizes = [
            self.item_bytes * math.prod((self.rows, *each.shape[1:]) if _is_sliced(each) else each.shape)
            for each in self.parameters
        ]
        files = plan_shards(sizes, self.max_shard_bytes)
        return 4 * max(self._largest_layer, self._largest_slice) + max(sum(sizes[n] for n in file) for file in files)

    def bytes_with(self, threads: int) -> int:
        """Return the largest number of bytes in memory if `threads` threads load layers, slices or tensors."""
        return self._bytes(threads, self._largest_tensor if self.by_tensor else self._largest_layer)

    def _bytes(self, threads: int, layer: int) -> int:
        """Return the bytes in memory if each thread loads `layer` elements of a layer together."""
        masters = 4 if self.has_masters else 0
        sliced = [each for each in self.parameters if _is_sliced(each)]
        copies = 1 + max((len(each.tied_layers) for each in sliced if self.has_tied_copies), default=0)
        mapped = max(
            (self.stored_bytes + masters) * layer,
            (self.stored_bytes * copies + masters) * self._largest_slice,
        )
        loading = self.copies * self.item_bytes * self._largest_tensor
        if self.is_rounded:
            loading += self.item_bytes * max(self._largest_tensor, self._largest_slice)
        if self.has_masters:
            # The weights, and master weights that are joined from the files of several replicas.
            loading += (self.stored_bytes + 4) * max(self._largest_tensor, self._largest_slice)
        # The memory of the slices of the embedding is kept for the slices of an untied head.
        kept = self._largest_slice if len(sliced) > 1 else 0
        return (threads + 1) * (max(layer, self._largest_slice) + kept) * self.item_bytes + threads * (mapped + loading)

    @property
    def _largest_tensor(self) -> int:
        """Number of elements of the largest tensor that is loaded as a whole."""
        return max((each.count for each in self.parameters if not _is_sliced(each)), default=0)

    @property
    def _largest_layer(self) -> int:
        """Number of elements of the largest layer, without the tensors that are loaded in slices."""
        layers: Counter[int] = Counter()
        for parameter in self.parameters:
            if not _is_sliced(parameter):
                layers[parameter.layer] += parameter.count
        return max(layers.values(), default=0)

    @property
    def _largest_slice(self) -> int:
        """Number of elements of the largest slice."""
        slices = [
            len(rows) * math.prod(each.shape[1:])
            for each in self.parameters
            if _is_sliced(each)
            for rows in row_slices(each, self.item_bytes, is_mapped=self.is_mapped)
        ]
        return max(slices, default=0)


def _is_sliced(parameter: Parameter) -> bool:
    return parameter.placement is Placement.VOCABULARY


def row_slices(
    parameter: Parameter, item_bytes: int, slice_bytes: int = SLICE_BYTES, *, is_mapped: bool = True
) -> list[range]:
    """Return the rows of consecutive slices of a parameter whose elements have `item_bytes` bytes.

    A slice has at most `slice_bytes` bytes and a quarter of the rows, but at least one row. All slices except the last
    have the same number of rows. If the files of the checkpoint are not mapped, one slice has all rows, because each
    slice would read the whole files.
    """
    if not is_mapped:
        return [range(parameter.shape[0])]
    rows, row_bytes = parameter.shape[0], item_bytes * math.prod(parameter.shape[1:])
    count = max(1, min(slice_bytes // row_bytes, -(-rows // _LEAST_SLICES)))
    return [range(start, min(start + count, rows)) for start in range(0, rows, count)]


def reordering_copies(family: Family | None) -> int:
    """Return the number of temporary copies of a tensor that a thread makes to change the order of the elements."""
    return 2 if family is not None and family.reorders else 0


def memory_of_writing(
    export: ExportConfig,
    model: ModelConfig,
    precision: str,
    parameters: Sequence[Parameter],
    *,
    rows: int,
    max_shard_bytes: int,
) -> WritingMemory:
    """Return the memory in which the weights of a training in `precision` are written.

    `rows` is the number of rows of the written embedding.
    """
    return WritingMemory(
        parameters=parameters,
        rows=rows,
        item_bytes=DTYPE_BYTES[export_dtype(export, precision)],
        stored_bytes=DTYPE_BYTES[PRECISION_DTYPES[precision]],
        has_masters=rounded_dtype(export, precision) is not None,
        copies=reordering_copies(exact_family(model)),
        max_shard_bytes=max_shard_bytes,
    )
