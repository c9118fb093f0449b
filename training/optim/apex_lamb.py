"""LAMB by NVIDIA apex's FusedLAMB, for a training in one process, in which no parameter is divided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from bloomery.config.training import ResolvedOptimizer
from training.optim.flat_groups import given_groups, state_of
from training.optim.lamb_passes import Mean
from training.optim.segment_map import SegmentMap

_NO_CLIPPING = 1e30
"""Norm to which apex would clip the gradient. DeepSpeed has already clipped it."""


class ApexLamb(torch.optim.Optimizer):
    """FusedLAMB over the parameters in DeepSpeed's flat tensors.

    The state is that of `training.optim.lamb.Lamb`, so a checkpoint of either loads into the other. apex does not
    return the trust ratios.
    """

    def __init__(self, groups: list[dict[str, Any]], optimizer: ResolvedOptimizer, where: SegmentMap) -> None:
        """Create the optimizer. See `training.optim.lamb.Lamb`.

        Raises:
            ImportError: NVIDIA's apex is not installed.
        """
        from apex.optimizers import FusedLAMB

        super().__init__(groups, {"lr": optimizer.learning_rate})
        self._groups, self._where = list(self.param_groups), where
        self._create = partial(
            FusedLAMB,
            betas=(optimizer.beta1, optimizer.beta2),
            eps=optimizer.epsilon,
            max_grad_norm=_NO_CLIPPING,
            use_nvlamb=optimizer.lamb.use_nvlamb,
        )
        self._fused: dict[int, Any] = {}
        """FusedLAMB of each group, over views of the group's flat tensor."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the weights of the groups in `param_groups`."""
        assert closure is None
        for number in given_groups(self._groups, self):
            self._update(number, self._groups[number])

    def _update(self, number: int, group: dict[str, Any]) -> None:
        (flat,) = group["params"]
        state, segments = state_of(self, flat, Mean.moments), self._where.groups[number]
        if number not in self._fused:
            views = [torch.nn.Parameter(flat.data.narrow(0, each.first, each.count)) for each in segments]
            self._fused[number] = self._create(views, lr=group["lr"], weight_decay=group["weight_decay"])
        fused = self._fused[number]
        (own,) = fused.param_groups
        for view, each in zip(own["params"], segments, strict=True):
            view.grad = flat.grad.narrow(0, each.first, each.count)
            fused.state[view] = {name: state[name].narrow(0, each.first, each.count) for name in Mean.moments}
        # apex adds 1 to the step before it uses it.
        own["lr"], own["step"] = group["lr"], int(state["step"])
        fused.step()
        state["step"] += 1
