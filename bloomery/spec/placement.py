"""Declare a parameter: its shape, its split over ranks and its initialisation.

The code for the initialisation, the gradient norm, checkpoints and the merging of shards reads these declarations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Placement(StrEnum):
    """How a parameter is distributed over the tensor-parallel ranks."""

    REPLICATED = "replicated"
    """Each rank holds a bit-equal copy of the whole parameter."""
    COLUMN = "column"
    """The parameter is split along dimension 0 (output features, heads)."""
    ROW = "row"
    """The parameter is split along dimension 1 (input features)."""
    VOCABULARY = "vocabulary"
    """The parameter is split along dimension 0 (rows of the embedding)."""

    @property
    def dimension(self) -> int | None:
        """Dimension that is split; None if the parameter is replicated."""
        return {"replicated": None, "column": 0, "row": 1, "vocabulary": 0}[self.value]


class Initializer(StrEnum):
    """How a parameter is initialised."""

    NORMAL = "normal"
    """Normal distribution with the model's standard deviation."""
    OUTPUT_NORMAL = "output_normal"
    """Normal distribution with the model's standard deviation divided by sqrt(2 * layers)."""
    ONES = "ones"
    """Every element is one."""
    ZEROS = "zeros"
    """Every element is zero."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of the whole model.

    `name` is unique in the model and seeds the parameter's initialisation. `layer` is the index of the pipeline layer
    that owns the parameter, and `local_name` is its name in that layer. The layers `tied_layers` hold copies of a tied
    parameter.
    """

    name: str
    shape: tuple[int, ...]
    placement: Placement
    layer: int
    local_name: str
    initializer: Initializer
    decays: bool
    tied_layers: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of elements of the whole parameter."""
        return math.prod(self.shape)

    def is_divisible(self, tensor_parallel: int) -> bool:
        """Return whether the parameter can be divided among `tensor_parallel` ranks."""
        dimension = self.placement.dimension
        return dimension is None or self.shape[dimension] % tensor_parallel == 0

    def shard_shape(self, tensor_parallel: int) -> tuple[int, ...]:
        """Return the shape of the shard on one of `tensor_parallel` ranks.

        Raises:
            ValueError: the size of the split dimension is not a multiple of `tensor_parallel`.
        """
        dimension = self.placement.dimension
        if dimension is None:
            return self.shape
        size = self.shape[dimension]
        if size % tensor_parallel:
            raise ValueError(
                f"{self.name}: dimension {dimension} of shape {self.shape} is not divisible by tensor-parallel size "
                f"{tensor_parallel}"
            )
        return (*self.shape[:dimension], size // tensor_parallel, *self.shape[dimension + 1 :])

    def shard_count(self, tensor_parallel: int) -> int:
        """Return the number of elements of the shard on one of `tensor_parallel` ranks. See `shard_shape`."""
        return math.prod(self.shard_shape(tensor_parallel))

    def shard_slices(self, rank: int, tensor_parallel: int) -> tuple[slice, ...]:
        """Return the index of the rank's shard in the whole parameter."""
        dimension = self.placement.dimension
        shard = self.shard_shape(tensor_parallel)
        return tuple(
            slice(rank * shard[i], (rank + 1) * shard[i]) if i == dimension else slice(None)
            for i in range(len(self.shape))
        )
