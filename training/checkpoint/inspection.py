"""Define the description of a checkpoint that `bloomery checkpoint inspect` shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bloomery.contracts.checkpoint import Change, Repair

_BLOCK = re.compile(r"\bh\.\d+\.")
"""Part of a parameter's name that states its transformer block."""


@dataclass(frozen=True)
class Tensor:
    """One parameter of the checkpoint."""

    name: str
    shape: tuple[int, ...]
    """Shape of the whole parameter."""
    dtype: str | None
    """Data type of the saved weights. None if no file of the parameter can be read."""
    split: str
    """How the parameter is distributed over the tensor ranks (`bloomery.spec.placement.Placement`)."""
    layer: int
    """Pipeline layer that owns the parameter."""
    tied_layers: tuple[int, ...]
    """Pipeline layers that hold copies of the parameter."""


@dataclass(frozen=True)
class Drift:
    """Copies of one state that differ."""

    what: str
    """State that differs, such as `exp_avg of h.0.input_layernorm.weight`."""
    copies: tuple[str, ...]
    """Files whose copies differ from the first copy."""


@dataclass(frozen=True)
class Optimizer:
    """Optimizer state in the checkpoint."""

    moments: tuple[str, ...]
    """Names of the moments. They are in fp32, as the master weights."""
    steps: float | None
    """Number of updates that the optimizer has made. None if the optimizer does not count updates."""
    loss_scale: float | None
    """Loss scale of a training in fp16, and None for other trainings."""


@dataclass(frozen=True)
class Inspection:
    """Description of a checkpoint."""

    checkpoint: str
    damaged: str | None
    """Problem that the checkpoint is marked with (`damaged.json`). None without a mark."""
    iteration: int
    consumed_samples: int
    consumed_tokens: int
    precision: str
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    sequence_parallel: bool
    stage_layers: tuple[int, ...]
    """First pipeline layer of each stage, followed by the number of layers."""
    vocabulary_rows: int
    parameters: int
    """Number of parameters of the model. A tied parameter counts once."""
    files: int
    """Number of files that the manifest lists."""
    bytes: int
    """Size of these files in bytes."""
    optimizer: Optimizer | None
    """None if no file of the optimizer can be read."""
    reference_logits: bool
    """Whether the checkpoint has the logits with which exports and resumed trainings are verified."""
    versions: dict[str, str]
    changes: tuple[Change, ...]
    repairs: tuple[Repair, ...]
    tensors: tuple[Tensor, ...]
    drift: tuple[Drift, ...]
    problems: tuple[str, ...]
    """Files that are missing, have another size than the manifest states, or do not fit the layout."""

    @property
    def is_good(self) -> bool:
        """Whether neither a mark nor drift nor another problem was found."""
        return self.damaged is None and not self.drift and not self.problems


def grouped(tensors: tuple[Tensor, ...]) -> Iterator[tuple[str, Tensor, int]]:
    """Yield (name, first tensor, number of tensors) for tensors that differ only in the number of their block.

    The name has `*` in place of the number.
    """
    counts = Counter((_BLOCK.sub("h.*.", each.name), each.shape, each.dtype, each.split) for each in tensors)
    for each in tensors:
        key = _BLOCK.sub("h.*.", each.name), each.shape, each.dtype, each.split
        if (count := counts.pop(key, None)) is not None:
            yield key[0] if count > 1 else each.name, each, count
