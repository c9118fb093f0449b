"""Compute trust ratios from sums of squares: the dialects of LAMB and the kinds of norms (`bloomery.config.lamb`)."""

from __future__ import annotations

import torch

from bloomery.config.training import OptimizerConfig
from bloomery.spec.placement import Placement
from training.optim.segment_map import SegmentMap

_LEAST_NORM_PER_ELEMENT = 1e-5
"""Least norm of weights in the dialects with a floor, divided by the number of elements."""
_DEFAULT_ALPHA = 1.0


class TrustRatio:
    """Trust ratios of all declared parameters.

    Sums are fp64 [tensor_size, parameters, 1 + updates]. They hold the sum of squares of each tensor-parallel rank's
    shard: first of the weights, then of each update. For a replicated parameter, they are those of each rank's copy.
    """

    def __init__(self, optimizer: OptimizerConfig, where: SegmentMap, device: torch.device) -> None:
        """Prepare the ratios for the parameters and the tensor-parallel rank of `where`."""
        parameters, lamb = where.parameters, optimizer.lamb
        self._lamb, self._rank = lamb, where.tensor_rank
        split = [parameter.placement != Placement.REPLICATED for parameter in parameters]
        counts = [parameter.count for parameter in parameters]
        self._is_split = torch.tensor(split, device=device)
        self._counts = torch.tensor(counts, dtype=torch.float64, device=device)
        shards = [parameter.shard_count(where.tensor_size) for parameter in parameters]
        self._shard_counts = torch.tensor(shards, dtype=torch.float64, device=device)
        all_adapt, some_decay = lamb.dialect != "apex" or lamb.use_nvlamb, optimizer.weight_decay != 0
        adapted = [all_adapt or (some_decay and parameter.decays) for parameter in parameters]
        self._is_adapted = torch.tensor(adapted, device=device)

    def of(self, current: torch.Tensor, previous: torch.Tensor | None) -> torch.Tensor:
        """Return the ratio of each parameter for each of its updates, fp64 [parameters, updates].

        Args:
            current: sums of this step over all ranks. The norms `stale` use them in the first step only.
            previous: sums of the previous step over whole parameters. None in the first step and if no norm is stale.
        """
        norms = self._lamb.norms
        if norms == "exact":
            squares, counts = self.whole(current), self._counts
        elif previous is None or norms == "shard":
            squares, counts = self._own(current), self._shard_counts
        elif norms == "stale":
            squares, counts = previous, self._counts
        else:
            # The weight norm is that of the average shard, because the update norm is that of a shard.
            squares, counts = self._own(current), self._shard_counts
            squares[:, 0] = previous[:, 0] * self._shard_counts / self._counts
        return self._ratios(squares, counts)

    def gains(self) -> torch.Tensor:
        """Return the factor of each parameter's learning rate, fp64 [parameters]."""
        if self._lamb.dialect != "embedding_gain":
            return torch.ones_like(self._counts)
        alpha = _DEFAULT_ALPHA if self._lamb.alpha is None else self._lamb.alpha
        return 1.0 + alpha * self._counts / self._counts.max()

    def whole(self, sums: torch.Tensor) -> torch.Tensor:
        """Return the sums over whole parameters, fp64 [parameters, 1 + updates].

        They are the sums over all shards. Of the copies of a replicated parameter, one counts.
        """
        return torch.where(self._is_split[:, None], sums.sum(dim=0), sums[0])

    def _own(self, sums: torch.Tensor) -> torch.Tensor:
        """Return the sums over this rank's shards, fp64 [parameters, 1 + updates].

        Of a replicated parameter, all ranks take the same copy's sums. Its own copy's sums may differ in the last bit,
        because the all-reduce adds them in another order.
        """
        return torch.where(self._is_split[:, None], sums[self._rank], sums[0])

    def _ratios(self, squares: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        # On a CPU, torch would start its threads for the square roots of a slice, which can take milliseconds.
        norms = squares.contiguous().sqrt()
        weights, updates = norms[:, :1], norms[:, 1:]
        if self._lamb.dialect != "apex":
            weights = torch.maximum(weights, _LEAST_NORM_PER_ELEMENT * counts[:, None])
        # The ratio of an update of 0 does not matter.
        has_ratio = self._is_adapted[:, None] & (weights > 0) & (updates > 0)
        return torch.where(has_ratio, weights / updates, 1.0)
