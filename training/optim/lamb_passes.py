"""The two passes of LAMB over a parameter group: before and after the norms are known. docs/lamb.md has the formulas.

On a CPU, the usual update is computed by the kernels of ``csrc/lamb``. GPUs, and the update of `innovation`, use torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from bloomery.config.training import OptimizerConfig
from training.optim.segment_map import Segment


@dataclass(frozen=True)
class Group:
    """A parameter group in one step: flat fp32 arrays of this rank, and the constants of the step.

    The passes may overwrite the gradient, which DeepSpeed does not use after the step.
    """

    weights: torch.Tensor
    gradient: torch.Tensor
    moments: list[torch.Tensor]
    segments: list[Segment]
    step: int
    """Number of this update, from 1."""
    learning_rate: float
    decay: float


class Passes(ABC):
    """The passes of a dialect."""

    moments: tuple[str, ...]
    """Names of the moments in the optimizer's state."""
    updates: int
    """Number of updates of a parameter that have trust ratios of their own."""

    @abstractmethod
    def first(self, group: Group) -> torch.Tensor:
        """Return the sums of squares of each segment's weights and updates, fp64 [segments, 1 + updates]."""

    @abstractmethod
    def second(self, group: Group, rates: torch.Tensor) -> None:
        """Update the weights. `rates` is learning rate x trust ratio, fp64 [segments, updates]."""


class Mean(Passes):
    """Update u = m / c1 / (sqrt(v / c2) + epsilon) + decay x p, with the running means m of g and v of g^2.

    The first pass replaces the gradient by u, so the step needs no further memory.
    """

    moments: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    updates = 1

    def __init__(self, optimizer: OptimizerConfig) -> None:
        self._optimizer = optimizer
        # The founding repository's mylamb3 computes the correction, but does not apply it.
        self._corrects_mean = optimizer.lamb.dialect != "embedding_gain"

    def first(self, group: Group) -> torch.Tensor:
        """Update the moments. See `Passes.first`."""
        beta1, beta2 = self._optimizer.beta1, self._optimizer.beta2
        mean, square = group.moments
        c1, c2 = self._corrections(group)
        mean.mul_(beta1).add_(group.gradient, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(group.gradient, group.gradient, value=1 - beta2)
        divisor = torch.sqrt(square, out=group.gradient).mul_(c2**-0.5).add_(self._optimizer.epsilon)
        torch.div(mean, divisor, out=group.gradient).mul_(1 / c1).add_(group.weights, alpha=group.decay)
        return _sums(group, [group.weights, group.gradient])

    def second(self, group: Group, rates: torch.Tensor) -> None:
        """Update the weights. See `Passes.second`."""
        _subtract(group, group.gradient, rates[:, 0])

    def _corrections(self, group: Group) -> tuple[float, float]:
        """Return the bias corrections c1 and c2."""
        c1 = 1 - self._optimizer.beta1**group.step if self._corrects_mean else 1.0
        return c1, 1 - self._optimizer.beta2**group.step


class MeanByKernel(Mean):
    """The same update by the kernels of ``csrc/lamb``, on a CPU."""

    def __init__(self, optimizer: OptimizerConfig) -> None:
        super().__init__(optimizer)
        # A GPU does not need the kernels, so a checkout without compiled modules can train on one (bench/gpu).
        from training.optim import _lamb

        self._kernels = _lamb

    def first(self, group: Group) -> torch.Tensor:
        """Update the moments. See `Passes.first`."""
        weights, gradient = group.weights.numpy(), group.gradient.numpy()
        mean, square = (each.numpy() for each in group.moments)
        constants = (*self._corrections(group), self._optimizer.epsilon, group.decay, torch.get_num_threads())
        rest = self._optimizer.beta1, self._optimizer.beta2, *constants
        sums = self._kernels.update_moments(weights, gradient, mean, square, _rows(group.segments), *rest)
        return torch.from_numpy(sums)

    def second(self, group: Group, rates: torch.Tensor) -> None:
        """Update the weights. See `Passes.second`."""
        weights, updates, factors = (each.numpy() for each in (group.weights, group.gradient, rates[:, 0].float()))
        self._kernels.update_weights(weights, updates, _rows(group.segments), factors, torch.get_num_threads())


class Innovation(Passes):
    """Two updates of equal norm: along the mean of earlier gradients, and along the gradient's difference from it.

    With m before the step, d = g - m and the running means v of g^2 and w of d^2, the updates are
    m / c1 / (sqrt(v / c2) + epsilon) and d / c1 / (sqrt(w / c2) + epsilon). The weight decay is decoupled from both.
    """

    moments: tuple[str, ...] = ("exp_avg", "exp_avg_sq", "exp_avg_innovation_sq")
    updates = 2

    def __init__(self, optimizer: OptimizerConfig) -> None:
        self._optimizer = optimizer

    def first(self, group: Group) -> torch.Tensor:
        """Update the means of the squares. See `Passes.first`."""
        mean, square, innovation_square = group.moments
        beta2, gradient = self._optimizer.beta2, group.gradient
        innovation = gradient - mean
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        innovation_square.mul_(beta2).addcmul_(innovation, innovation, value=1 - beta2)
        return _sums(group, [group.weights, *self._both(group)])

    def second(self, group: Group, rates: torch.Tensor) -> None:
        """Update the weights and the mean of the gradient. See `Passes.second`."""
        along_mean, along_innovation = self._both(group)
        group.weights.mul_(1 - group.learning_rate * group.decay)
        # In the first step the mean is 0, so its update is 0.
        _subtract(group, along_mean, rates[:, 0])
        _subtract(group, along_innovation, rates[:, 1])
        mean, beta1 = group.moments[0], self._optimizer.beta1
        mean.mul_(beta1).add_(group.gradient, alpha=1 - beta1)

    def _both(self, group: Group) -> tuple[torch.Tensor, torch.Tensor]:
        mean, square, innovation_square = group.moments
        c1, c2 = 1 - self._optimizer.beta1**group.step, 1 - self._optimizer.beta2**group.step
        divisors = [each.sqrt().mul_(c2**-0.5).add_(self._optimizer.epsilon) for each in (square, innovation_square)]
        return (mean / c1).div_(divisors[0]), ((group.gradient - mean) / c1).div_(divisors[1])


def passes_of(optimizer: OptimizerConfig, device: torch.device) -> Passes:
    """Return the passes of the configured dialect on a device."""
    if optimizer.lamb.dialect == "innovation":
        return Innovation(optimizer)
    return MeanByKernel(optimizer) if device.type == "cpu" else Mean(optimizer)


def moments_of(optimizer: OptimizerConfig) -> tuple[str, ...]:
    """Return the names of the moments of the configured dialect."""
    return (Innovation if optimizer.lamb.dialect == "innovation" else Mean).moments


def _rows(segments: list[Segment]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([(each.first, each.count) for each in segments], dtype=np.int64).reshape(-1, 2)


def _sums(group: Group, arrays: list[torch.Tensor]) -> torch.Tensor:
    """Return the sums of squares of each array over each segment, fp64 [segments, arrays]."""
    found = [
        torch.linalg.vector_norm(array.narrow(0, each.first, each.count), dtype=torch.float64)
        for each in group.segments
        for array in arrays
    ]
    if not found:
        return group.weights.new_zeros((0, len(arrays)), dtype=torch.float64)
    return torch.stack(found).square().view(-1, len(arrays))


def _subtract(group: Group, update: torch.Tensor, rates: torch.Tensor) -> None:
    """Subtract rate x update from the weights of each segment. `update` is overwritten."""
    for each, rate in zip(group.segments, rates.to(update.dtype).unbind(), strict=True):
        update.narrow(0, each.first, each.count).mul_(rate)
    for each in group.segments:
        group.weights.narrow(0, each.first, each.count).sub_(update.narrow(0, each.first, each.count))
