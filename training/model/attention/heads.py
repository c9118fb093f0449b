"""The interface of attention back ends: the heads of a rank and the signature of attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

Attend = Callable[..., torch.Tensor]
"""Causal attention of query, key and value, each [batch, length, heads, head_dim]. The result has the same shape.

The back end `eager` has a fourth, optional argument: a function that applies dropout to the attention weights.
"""


class Heads(NamedTuple):
    """Attention heads of one tensor-parallel rank.

    This is a NamedTuple, because the compiler of torch 2.11 does not accept a dataclass as a constant.
    """

    total: int
    """Number of heads in the whole model. ALiBi's slopes depend on it."""
    first: int
    """Index of this rank's first head."""
    local: int
    """Number of heads on this rank."""
    scale: float
    """Factor for the products of queries and keys. 1 if both were already scaled (stable attention)."""
    alibi: bool
    """Whether the model uses ALiBi."""
