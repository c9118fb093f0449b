"""What a back end of attention is given and what it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Causal attention: query, key, value [batch, length, heads, head_dim] -> [batch, length, heads, head_dim]."""


class Heads(NamedTuple):
    """The heads of one tensor-parallel rank; no dataclass: torch 2.11's compiler takes none as a constant."""

    total: int
    """Of the whole model: ALiBi's slopes depend on it."""
    first: int
    """Number of this rank's first one."""
    local: int
    """How many this rank has."""
    scale: float
    """Of the products of queries and keys; 1 where both were scaled before (stable attention)."""
    alibi: bool
    """Whether scores fall with distance."""
