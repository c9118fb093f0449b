"""Prepare the input of the blocks with transformers' code: the embedded tokens, and mask and positions of each span.

A span is a range of consecutive positions of a sample. A block computes a long sample span by span. For a whole sample,
the matrices of attention scores that transformers holds would together be as large as a layer. A cache gives the block
the keys and values of the earlier spans.
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
class Span:
    """A range of positions, and the arguments that transformers passes to every block besides the block's input."""

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
) -> tuple[torch.Tensor, list[Span]]:
    """Return the input of the first block [samples, length, hidden], and the spans of the samples.

    Args:
        model: transformers' model without a head. A `FirstBlock` replaces its blocks.
        tokens: samples of one length, int64 [samples, length].
        cache: cache of the blocks. A sample with one span is computed without it.
        most: largest number of positions of a span.
        begin: function that is called before each span. Its argument states whether the span is the last one.
    """
    length = tokens.shape[1]
    parts, spans = [], []
    for start in range(0, length, most):
        positions = slice(start, min(start + most, length))
        cache.earlier = start
        begin(positions.stop == length)
        cached = {"past_key_values": cache} if length > most else {}
        try:
            model(input_ids=tokens[:, positions], use_cache=bool(cached), **cached)
        except _FirstBlockReachedError as reached:
            parts.append(reached.arguments[0])
            spans.append(Span(positions, reached.arguments[1:], reached.options))
        else:
            raise AssertionError("transformers did not call the first block")
    return torch.cat(parts, dim=1), spans
