"""The gate between the gradient norm and the update: whoever guards a training may leave one update out.

DeepSpeed's wrappers compute the norm, clip, and call the base optimizer's `step`; with a norm that is not finite they
return before that. The gate stands in both places, so that each iteration is decided on exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class UpdateGate:
    """Decides each iteration whether the update happens; without `decide` all do whose norm is finite.

    An update that is left out leaves weights, moments and step count as they were, bit for bit.
    """

    decide: Callable[[float], bool] | None = None
    """Asked once an iteration, on every rank, with the global gradient norm before clipping, equal on all ranks; True
    leaves the update out. A norm that is not finite comes as infinity, and its update is left out whatever the answer.
    """
    left_out: bool = False
    """Whether the last iteration's update was left out."""
    norm: float = 0.0
    """Global gradient norm of the last iteration, before clipping; infinity for one that is not finite."""
    overflowed: bool = False
    """Whether the last iteration's fp16 gradients overflowed while the loss scale could still fall: part of finding
    the scale, so `decide` was not asked."""

    def __init__(self, engine: Any) -> None:
        """Stand in the way of `engine`'s updates; once for each engine."""
        self._device = engine.device
        self._wrapper = engine.optimizer
        self._asked = False
        self._whole_step = self._wrapper.step
        self._update = self._wrapper.optimizer.step
        self._wrapper.step = self._step
        self._wrapper.optimizer.step = self._base_step

    @property
    def loss_scale(self) -> float | None:
        """fp16's loss scale; None for other precisions."""
        scaler = getattr(self._wrapper, "loss_scaler", None)
        return float(scaler.cur_scale) if scaler is not None and scaler.dynamic else None

    def _step(self, *arguments: Any, **options: Any) -> None:
        """DeepSpeed's step: norm, clipping, base optimizer, weights."""
        wrapper, scale = self._wrapper, self.loss_scale
        linked = wrapper._hp_optimizer_states_linked
        self._asked = self.overflowed = False
        self._whole_step(*arguments, **options)
        if not self._asked:
            # It returned early: the norm is not finite.
            self.overflowed = scale is not None and scale > wrapper.loss_scaler.min_scale
            if self.overflowed:
                self.norm, self.left_out = math.inf, True
            else:
                self._ask(math.inf)
        if self.left_out:
            # DeepSpeed ties its views to a state that a first update would have made.
            wrapper._hp_optimizer_states_linked = linked

    def _base_step(self, *arguments: Any, **options: Any) -> Any:
        """The base optimizer's step, which ZeRO calls once for each group of parameters."""
        if not self._asked:
            self._ask(float(self._wrapper._global_grad_norm))
        return None if self.left_out else self._update(*arguments, **options)

    def _ask(self, norm: float) -> None:
        self._asked = True
        wanted = False
        if self.decide is not None:
            norm = self._agreed(norm)
            wanted = bool(self.decide(norm))
        self.norm, self.left_out = norm, wanted or not math.isfinite(norm)

    def _agreed(self, norm: float) -> float:
        """The greatest norm of all ranks: replicas that reduce in another order may differ in the last bit, and half
        of them leaving out an update would be the end of the training."""
        if dist.get_world_size() == 1:
            return norm
        value = torch.tensor([norm], dtype=torch.float64, device=self._device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value)
