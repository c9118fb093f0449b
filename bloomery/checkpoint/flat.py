"""Compute the position of a parameter in the flat fp32 state of ZeRO stage 1, without torch.

The parameters of a group are concatenated and padded with zeros to a multiple of 2 x replicas elements. Each replica
holds an equal part (DeepSpeed 0.19: runtime/bf16_optimizer.py `_setup_for_real_optimizer`,
runtime/zero/stage_1_and_2.py `DeepSpeedZeroOptimizer.__init__`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bloomery.spec.groups import optimizer_groups
from bloomery.spec.placement import Parameter

_ALIGNMENT = 2
"""Alignment in elements: DeepSpeed's `nccl_start_alignment_factor`."""


@dataclass(frozen=True)
class StatePiece:
    """Consecutive elements of a parameter's shard, and their position on one replica."""

    replica: int
    group: int
    start: int
    """First element, counted in the replica's part of the group."""
    first: int
    """First element, counted in the flattened shard."""
    count: int


class FlatState:
    """Positions in the flat optimizer state that is divided among the replicas of one (pipeline stage, tensor rank)."""

    def __init__(self, parameters: Sequence[Parameter], tensor_parallel: int, replicas: int) -> None:
        """Compute the positions of one stage's `parameters` (`bloomery.spec.groups.held`)."""
        self.replicas = replicas
        self.part_sizes: list[int] = []
        """Number of elements of each parameter group that one replica holds."""
        self.counts: list[int] = []
        """Number of elements of each parameter group, without the zeros at the end."""
        self._at: dict[str, tuple[int, int, int]] = {}
        for number, group in enumerate(optimizer_groups(parameters)):
            offset = 0
            for parameter in group:
                count = parameter.shard_count(tensor_parallel)
                self._at[parameter.name] = number, offset, count
                offset += count
            unit = _ALIGNMENT * replicas
            self.part_sizes.append(-(-offset // unit) * unit // replicas)
            self.counts.append(offset)

    def pieces(self, parameter: Parameter) -> list[StatePiece]:
        """Return the positions of the parameter's shard, in the order of its elements."""
        group, offset, count = self._at[parameter.name]
        size, end = self.part_sizes[group], offset + count
        found = []
        for replica in range(offset // size, -(-end // size)):
            begin = replica * size
            low, high = max(offset, begin), min(end, begin + size)
            found.append(StatePiece(replica, group, low - begin, low - offset, high - low))
        return found

    def slices(self, replica: int) -> list[dict[str, tuple[int, int]]]:
        """Return, for each group, where the replica's part contains each parameter: name -> (first element, number of
        elements)."""
        found: list[dict[str, tuple[int, int]]] = [{} for _ in self.part_sizes]
        for name, (group, offset, count) in self._at.items():
            begin = replica * self.part_sizes[group]
            low, high = max(offset, begin), min(offset + count, begin + self.part_sizes[group])
            if low < high:
                found[group][name] = low - begin, high - low
        return found
