"""LAMB (You et al. 2020, arXiv:1904.00962) for parameters that are divided among ranks. docs/lamb.md has the formulas.

A step has two passes over this rank's flat fp32 state, with one all-reduce between them:

1. Update the moments. For each parameter, sum the squares of this rank's weights and of their update.
2. Add these sums over all ranks. They give the trust ratio of every parameter.
3. Subtract each parameter's update, scaled by its ratio and the learning rate.

DeepSpeed's wrapper for fp16 and fp32 calls `step` once for each parameter group. The calls for earlier groups only
keep the gradient, so that one all-reduce serves all groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from bloomery.config.training import ResolvedOptimizer
from training.optim.flat_groups import given_groups, state_of
from training.optim.lamb_passes import Group, passes_of
from training.optim.segment_map import SegmentMap
from training.optim.trust_ratio import TrustRatio

PREVIOUS_SUMS = "previous_sums"
"""Option of the parameter groups that holds the sums of the last step, for stale norms."""


class Lamb(torch.optim.Optimizer):
    """LAMB in one of its dialects (`bloomery.config.lamb`).

    The state of a group's flat tensor has `step`, `exp_avg` and `exp_avg_sq`. The dialect `innovation` also has
    `exp_avg_innovation_sq`. With stale norms, the groups have the option `previous_sums`.
    """

    copy_weights: Callable[[list[int]], None] | None = None
    """Function that copies the fp32 weights of these groups to the weights of the network. It is called after the
    update, with the groups that DeepSpeed's wrapper has already copied."""

    def __init__(self, groups: list[dict[str, Any]], optimizer: ResolvedOptimizer, where: SegmentMap) -> None:
        """Create the optimizer.

        Args:
            groups: parameter groups with the keys `params` and `weight_decay`. DeepSpeed's wrapper replaces the
                parameters of a group by one flat fp32 tensor.
            optimizer: configuration of the optimizer.
            where: map of this rank's segments, in the order of `groups`.
        """
        super().__init__(groups, {"lr": optimizer.learning_rate})
        self.where = where
        """Map of this rank's segments."""
        self._norms, self._is_stale = optimizer.lamb.norms, optimizer.lamb.is_stale
        self._groups = list(self.param_groups)
        device = self._groups[0]["params"][0].device
        self._passes = passes_of(optimizer, device)
        self._ratio = TrustRatio(optimizer, where, device)
        self._gains = self._ratio.gains()
        numbers = [[each.parameter for each in segments] for segments in where.groups]
        self._numbers = [torch.tensor(each, dtype=torch.int64, device=device) for each in numbers]
        """Number of the parameter of each segment, by group."""
        owned = [[row for row, each in enumerate(segments) if each.is_owned] for segments in where.groups]
        self._owned = [torch.tensor(each, dtype=torch.int64, device=device) for each in owned]
        """Rows of the segments that count in sums over all ranks, by group."""
        self._gradients: dict[int, torch.Tensor] = {}
        self._last: torch.Tensor | None = None
        self._previous: torch.Tensor | None = None
        """Sums of the last step over whole parameters, for stale norms."""
        self._pending: tuple[torch.Tensor, dist.Work] | None = None
        """Sums of the last step that are being added over all ranks, which replace `_previous`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the weights. Collective: all calls of a step together make one all-reduce over all ranks."""
        assert closure is None
        present = given_groups(self._groups, self)
        for number in present:
            self._gradients[number] = self._groups[number]["params"][0].grad
        if len(self._gradients) < len(self._groups):
            return
        self._update([self._group(number) for number in range(len(self._groups))])
        self._gradients.clear()
        earlier = [number for number in range(len(self._groups)) if number not in present]
        if earlier and self.copy_weights is not None:
            self.copy_weights(earlier)

    def trust_ratios(self) -> list[float] | None:
        """Return the trust ratio of each of `where.parameters` in the last step. None before the first step.

        With norms of shards, the ratios are those of this rank's shards. The dialect `innovation` has the ratio of the
        update along the gradient's difference from its mean.
        """
        return None if self._last is None else [float(each) for each in self._last[:, -1].tolist()]

    def save_sums(self) -> None:
        """Put the sums of the last step into the groups' options, which checkpoints save. Call it before a save."""
        if self._is_stale:
            sums = self._settled()
            for group in self._groups:
                group[PREVIOUS_SUMS] = None if sums is None else sums.flatten().tolist()

    def load_sums(self, saved: list[float] | None) -> None:
        """Take the sums of the last step from the options of a saved group."""
        self._previous = self._pending = None
        if self._is_stale and saved is not None:
            flat = torch.tensor(saved, dtype=torch.float64, device=self._gains.device)
            self._previous = flat.view(-1, 1 + self._passes.updates)

    def _group(self, number: int) -> Group:
        """Return a group's arrays and constants."""
        group = self._groups[number]
        (flat,) = group["params"]
        state = state_of(self, flat, self._passes.moments)
        state["step"] += 1
        return Group(
            weights=flat.data,
            gradient=self._gradients[number],
            moments=[state[name] for name in self._passes.moments],
            segments=self.where.groups[number],
            step=int(state["step"]),
            learning_rate=float(group["lr"]),
            decay=float(group["weight_decay"]),
        )

    def _update(self, groups: list[Group]) -> None:
        previous = self._settled()
        sums = self._own_sums(groups)
        if self._norms == "stale" and previous is not None:
            # The sums are needed in the next step only, so they are added while the next gradients are computed.
            self._pending = sums, dist.all_reduce(sums, async_op=True)
        else:
            dist.all_reduce(sums)
            self._previous = self._ratio.whole(sums) if self._is_stale else None
        ratios = self._ratio.of(sums, previous)
        self._last = ratios
        for group, numbers in zip(groups, self._numbers, strict=True):
            self._passes.second(group, group.learning_rate * self._gains[numbers, None] * ratios[numbers])

    def _own_sums(self, groups: list[Group]) -> torch.Tensor:
        """Make the first pass, and return the sums of this rank at their places in the sums of all ranks."""
        where = self.where
        shape = where.tensor_size, len(where.parameters), 1 + self._passes.updates
        sums = torch.zeros(shape, dtype=torch.float64, device=self._gains.device)
        for group, numbers, owned in zip(groups, self._numbers, self._owned, strict=True):
            sums[where.tensor_rank, numbers[owned]] = self._passes.first(group)[owned]
        return sums

    def _settled(self) -> torch.Tensor | None:
        """Return the sums of the last step over whole parameters, fp64 [parameters, 1 + updates].

        Wait for their all-reduce. None if the norms are not stale, and before the first step.
        """
        if self._pending is not None:
            sums, work = self._pending
            work.wait()
            self._pending, self._previous = None, self._ratio.whole(sums)
        return self._previous
