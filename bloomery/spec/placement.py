"""Where the elements of a parameter live. Declared once; read by initialisation, gradient norm, checkpoint, merge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Placement(StrEnum):
    """How a parameter is laid over the tensor-parallel ranks."""

    REPLICATED = "replicated"
    """Each rank holds all of it, bit-equal."""
    COLUMN = "column"
    """Split along dimension 0 (output features, heads)."""
    ROW = "row"
    """Split along dimension 1 (input features)."""
    VOCABULARY = "vocabulary"
    """Split along dimension 0 (rows of the embedding)."""

    @property
    def dimension(self) -> int | None:
        """Dimension that is split; None when replicated."""
        return {"replicated": None, "column": 0, "row": 1, "vocabulary": 0}[self.value]


class Initializer(StrEnum):
    """How a parameter starts."""

    NORMAL = "normal"
    """Normal with the model's standard deviation."""
    OUTPUT_NORMAL = "output_normal"
    """Normal with the model's standard deviation / sqrt(2 * layers)."""
    ONES = "ones"
    """All ones."""
    ZEROS = "zeros"
    """All zeros."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of the whole model.

    `name` is unique in the model and is the one that initialisation is keyed by; `layer` is the index of the pipeline
    layer that owns it and `local_name` its name there. A tied parameter also lives in the layers `tied_layers`.
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
        """Number of elements."""
        return math.prod(self.shape)

    def shard_shape(self, tensor_parallel: int) -> tuple[int, ...]:
        """Shape on one of `tensor_parallel` ranks. Raises ValueError when the split dimension does not divide."""
        dimension = self.placement.dimension
        if dimension is None:
            return self.shape
        size = self.shape[dimension]
        if size % tensor_parallel:
            raise ValueError(
                f"{self.name}: dimension {dimension} of {self.shape} is not divisible by {tensor_parallel}"
            )
        return (*self.shape[:dimension], size // tensor_parallel, *self.shape[dimension + 1 :])

    def shard_slices(self, rank: int, tensor_parallel: int) -> tuple[slice, ...]:
        """Index of rank's part in the whole parameter."""
        dimension = self.placement.dimension
        shard = self.shard_shape(tensor_parallel)
        return tuple(
            slice(rank * shard[i], (rank + 1) * shard[i]) if i == dimension else slice(None)
            for i in range(len(self.shape))
        )
