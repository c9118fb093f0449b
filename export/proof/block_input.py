"""Let transformers prepare what a block gets: the embedded tokens, and the mask and positions of each segment.

A segment is a range of consecutive positions of a sample. A long sample goes through a block segment by segment,
because transformers holds several matrices of attention scores, which would be as large as a layer for whole samples.
The block finds the keys and values of the earlier segments in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from export.proof.block_cache import BlockCache


@dataclass(frozen=True)
class Segment:
    """A range of positions, and the arguments that transformers gives to every block besides its input."""

    positions: slice
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class _FirstBlockReachedError(Exception):
    """Ends transformers' forward pass before its first block, with the arguments that the block would get."""

    def __init__(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.options = arguments, options


class FirstBlock(nn.Module):
    """Module that replaces the blocks, and ends the forward pass when it is called."""

    def forward(self, *arguments: Any, **options: Any) -> None:
        """Raise an error that `block_input` catches."""
        raise _FirstBlockReachedError(arguments, options)


def block_input(
    model: Any, tokens: torch.Tensor, cache: BlockCache, most: int, begin: Callable[[bool], None]
) -> tuple[torch.Tensor, list[Segment]]:
    """Return the input of the first block [samples, length, hidden], and the segments of the samples.

    Args:
        model: transformers' model without a head. A `FirstBlock` replaces its blocks.
        tokens: samples of one length, int64 [samples, length].
        cache: cache of the blocks. A sample with one segment is computed without it.
        most: largest number of positions of a segment.
        begin: function that is called before each segment. Its argument is true before the last one.
    """
    length = tokens.shape[1]
    parts, segments = [], []
    for start in range(0, length, most):
        positions = slice(start, min(start + most, length))
        cache.earlier = start
        begin(positions.stop == length)
        cached = {"past_key_values": cache} if length > most else {}
        try:
            model(input_ids=tokens[:, positions], use_cache=bool(cached), **cached)
        except _FirstBlockReachedError as reached:
            parts.append(reached.arguments[0])
            segments.append(Segment(positions, reached.arguments[1:], reached.options))
        else:
            raise AssertionError("transformers did not call the first block")
    return torch.cat(parts, dim=1), segments
