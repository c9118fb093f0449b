"""torch's FlexAttention: ALiBi and the causal mask are functions that it compiles into its kernel.

No bias is read and the upper triangle is never computed. Its backward pass runs on a GPU alone (torch 2.13).
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
"""Queries and keys of a block that is computed or left out as a whole."""
_TABLES = tuple(
    f"{full}{side}_{what}" for full in ("", "full_") for side in ("kv", "q") for what in ("num_blocks", "indices")
)
"""What a BlockMask is made of."""


def causal(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether a query sees a key."""
    return query >= key


@lru_cache(maxsize=2)
def _causal_blocks(length: int, device: torch.device) -> BlockMask:
    return create_block_mask(causal, None, None, length, length, device=device, BLOCK_SIZE=_BLOCK)


@shared
def _tables(length: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    mask = _causal_blocks(length, device)
    return tuple(getattr(mask, name) for name in _TABLES)


def _mask(length: int, device: torch.device) -> BlockMask:
    if not torch.compiler.is_compiling():
        return _causal_blocks(length, device)
    # The compiler takes tensors as constants, but no mask: it is put together from its tables, which costs nothing.
    tables: dict[str, Any] = dict(zip(_TABLES, _tables(length, device), strict=True))
    return BlockMask(seq_lengths=(length, length), BLOCK_SIZE=(_BLOCK, _BLOCK), mask_mod=causal, **tables)


@lru_cache(maxsize=1)
def _compiled() -> object:
    return torch.compile(flex_attention, dynamic=False)


def build(heads: Heads) -> Attend:
    """Compiled on a GPU; on a CPU its plain form, without a backward pass."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        slopes = local_slopes(heads, query.device)

        def alibi(
            score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, at: torch.Tensor, to: torch.Tensor
        ) -> torch.Tensor:
            return score - slopes[head] * (at - to)

        # In a block that is compiled whole, it is compiled with it.
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
