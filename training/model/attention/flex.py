"""Attention by torch's FlexAttention, which compiles ALiBi and the causal mask into its kernel.

The kernel reads no bias tensor and skips the blocks above the diagonal. Its backward pass requires a GPU (torch 2.13).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from training.model.alibi import local_slopes
from training.model.attention.heads import Attend, Heads
from training.model.shared import shared

_BLOCK = 128
"""Number of queries and of keys in a block of the mask. A block is computed or skipped as a whole."""
_TABLES = tuple(
    f"{full}{side}_{what}" for full in ("", "full_") for side in ("kv", "q") for what in ("num_blocks", "indices")
)
"""Names of the tensors that define a BlockMask."""


def causal(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether the query at position `query` may attend to the key at position `key`."""
    return query >= key


@lru_cache(maxsize=2)
def _causal_blocks(length: int, device: torch.device) -> BlockMask:
    """Create the causal block mask for a sequence length."""
    return create_block_mask(causal, None, None, length, length, device=device, BLOCK_SIZE=_BLOCK)


@shared
def _tables(length: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the tensors of the causal block mask, in the order of `_TABLES`."""
    mask = _causal_blocks(length, device)
    return tuple(getattr(mask, name) for name in _TABLES)


def _mask(length: int, device: torch.device) -> BlockMask:
    """Return the causal block mask, also while torch compiles a transformer block."""
    if not torch.compiler.is_compiling():
        return _causal_blocks(length, device)
    # The compiler accepts tensors as constants, but not a mask. So build the mask from its tensors, which is cheap.
    tables: dict[str, Any] = dict(zip(_TABLES, _tables(length, device), strict=True))
    return BlockMask(seq_lengths=(length, length), BLOCK_SIZE=(_BLOCK, _BLOCK), mask_mod=causal, **tables)


@lru_cache(maxsize=1)
def _compiled() -> object:
    """Return the compiled `flex_attention`."""
    return torch.compile(flex_attention, dynamic=False)


def build(heads: Heads) -> Attend:
    """Build the back end. It is compiled on a GPU. On a CPU it runs uncompiled and has no backward pass."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        slopes = local_slopes(heads, query.device)

        def alibi(
            score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, at: torch.Tensor, to: torch.Tensor
        ) -> torch.Tensor:
            return score - slopes[head] * (at - to)

        # If the whole transformer block is being compiled, flex_attention is compiled as a part of it.
        run = _compiled() if query.is_cuda and not torch.compiler.is_compiling() else flex_attention
        mixed: torch.Tensor = run(  # type: ignore[operator]
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            score_mod=alibi if heads.alibi else None,
            block_mask=_mask(query.size(1), query.device),
            scale=heads.scale,
        )
        return mixed.transpose(1, 2)

    return attend
