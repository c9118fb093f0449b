"""Activation checkpointing: a block's backward pass recomputes activations instead of storing them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Forward = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Forward pass of a block: an activation and the numbers for dropout -> the block's output."""

_KEPT = {
    "mm",
    "addmm",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_flash_attn_forward",
    "flex_attention",
}
"""Operations whose results `selective` stores, because they are expensive: matrix products and fused attention."""


def _policy(context: Any, operation: Any, *arguments: Any, **options: Any) -> CheckpointPolicy:
    name = operation.__name__.split(".")[0]
    return CheckpointPolicy.MUST_SAVE if name in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def recomputed(forward: Forward, what: str) -> Forward:
    """Wrap `forward` in activation checkpointing. `what` is `full`, `selective` or `none`."""
    if what == "none":
        return forward
    # Dropout computes its numbers from counters, so the recomputation need not restore a generator's state.
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    if what == "selective":
        options["context_fn"] = partial(create_selective_checkpoint_contexts, _policy)

    # torch.compile can trace this function, but not a partial of torch's `checkpoint`.
    def run(x: torch.Tensor, numbers: torch.Tensor | None) -> torch.Tensor:
        result: torch.Tensor = checkpoint(forward, x, numbers, **options)
        return result

    return run
