"""Parameter groups as DeepSpeed's wrappers give them to an optimizer: one flat fp32 tensor for each group.

ZeRO's wrapper (fp16, fp32) calls `step` once for each group, with a list of that group alone in `param_groups`.
BF16_Optimizer makes one call with all groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def given_groups(groups: list[dict[str, Any]], optimizer: torch.optim.Optimizer) -> list[int]:
    """Return which of the optimizer's original `groups` this call of `step` is for."""
    given = {id(group) for group in optimizer.param_groups}
    return [number for number, group in enumerate(groups) if id(group) in given]


def state_of(optimizer: torch.optim.Optimizer, flat: torch.Tensor, moments: Iterable[str]) -> dict[str, Any]:
    """Return the state of a group's flat tensor. The first call creates the step count and the moments."""
    state: dict[str, Any] = optimizer.state[flat]
    if "exp_avg" not in state:
        state["step"] = torch.zeros((), dtype=torch.float32)
        state.update({name: torch.zeros_like(flat, requires_grad=False) for name in moments})
    return state
