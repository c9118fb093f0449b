"""Decide whether to skip an update, after the gradient norm is known and before the weights change.

DeepSpeed's optimizer wrapper computes the norm, clips the gradients, and calls the base optimizer's `step`. If the norm
is not finite, the wrapper returns before that call. The gate replaces the `step` of the wrapper and of the base
optimizer, so that it decides exactly once per iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class UpdateGate:
    """Gate that decides in each iteration whether to make or to skip the update.

    If `decide` is None, only updates with a non-finite norm are skipped. After a skipped update, weights, moments and
    step count are unchanged, bit for bit.
    """

    decide: Callable[[float], bool] | None = None
    """Function that returns True to skip the update. It is called at most once per iteration on every rank, with the
    global gradient norm before clipping. The norm is equal on all ranks. A non-finite norm is passed as infinity, and
    its update is skipped whatever the function returns. The function is not called after an overflow (`overflowed`)."""
    left_out: bool = False
    """Whether the last iteration's update was skipped."""
    norm: float = 0.0
    """Global gradient norm of the last iteration before clipping. Infinity if the norm was not finite."""
    overflowed: bool = False
    """Whether the last iteration's fp16 gradients overflowed while the loss scale could still be lowered."""

    def __init__(self, engine: Any) -> None:
        """Replace the `step` methods of `engine`'s optimizer. Use one gate per engine."""
        self._device = engine.device
        self._wrapper = engine.optimizer
        self._asked = False
        self._whole_step = self._wrapper.step
        self._update = self._wrapper.optimizer.step
        self._wrapper.step = self._step
        self._wrapper.optimizer.step = self._base_step

    @property
    def loss_scale(self) -> float | None:
        """Dynamic loss scale of fp16. None for other precisions."""
        scaler = getattr(self._wrapper, "loss_scaler", None)
        return float(scaler.cur_scale) if scaler is not None and scaler.dynamic else None

    def _step(self, *arguments: Any, **options: Any) -> None:
        """Run DeepSpeed's step: compute the norm, clip, call the base optimizer, and copy the weights."""
        wrapper, scale = self._wrapper, self.loss_scale
        linked = wrapper._hp_optimizer_states_linked
        self._asked = self.overflowed = False
        self._whole_step(*arguments, **options)
        if not self._asked:
            # The wrapper returned before it called the base optimizer, because the norm is not finite.
            self.overflowed = scale is not None and scale > wrapper.loss_scaler.min_scale
            if self.overflowed:
                self.norm, self.left_out = math.inf, True
            else:
                self._ask(math.inf)
        if self.left_out:
            # DeepSpeed has linked its views to optimizer state that a skipped first update did not create.
            wrapper._hp_optimizer_states_linked = linked

    def _base_step(self, *arguments: Any, **options: Any) -> Any:
        """Run or skip the base optimizer's step, which ZeRO calls once per parameter group."""
        if not self._asked:
            self._ask(float(self._wrapper._global_grad_norm))
        return None if self.left_out else self._update(*arguments, **options)

    def _ask(self, norm: float) -> None:
        """Decide on this iteration's update."""
        self._asked = True
        wanted = False
        if self.decide is not None:
            norm = self._agreed(norm)
            wanted = bool(self.decide(norm))
        self.norm, self.left_out = norm, wanted or not math.isfinite(norm)

    def _agreed(self, norm: float) -> float:
        """Return the largest norm of all ranks.

        Ranks that reduce in a different order may differ in the last bit. All ranks must reach the same decision,
        because replicas would diverge if only some of them skipped an update.
        """
        if dist.get_world_size() == 1:
            return norm
        value = torch.tensor([norm], dtype=torch.float64, device=self._device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value)
