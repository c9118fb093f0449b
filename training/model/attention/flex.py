"""torch's FlexAttention: ALiBi and the causal mask are functions that it compiles into its kernel.

No bias is read and the upper triangle is never computed. Its backward pass runs on a GPU alone (torch 2.13).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from training.model.alibi import local_slopes
from training.model.attention.heads import Attend, Heads
from training.model.shared import shared


def causal(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether a query sees a key."""
    return query >= key


@shared
def _causal_blocks(length: int, device: torch.device) -> BlockMask:
    return create_block_mask(causal, None, None, length, length, device=device)


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

        run = _compiled() if query.is_cuda else flex_attention
        mixed: torch.Tensor = run(  # type: ignore[operator]
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            score_mod=alibi if heads.alibi else None,
            block_mask=_causal_blocks(query.size(1), query.device),
            scale=heads.scale,
        )
        return mixed.transpose(1, 2)

    return attend
