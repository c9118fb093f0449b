"""LAMB on whole tensors, written from the formulas of docs/lamb.md.

The dialect `apex` follows the computation of apex's kernel (csrc/multi_tensor_lamb.cu). The other dialects follow the
large-batch repository's mylamb, mylamb2 and mylamb3. All gradients are already clipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

State = dict[str, torch.Tensor]


@dataclass
class Reference:
    """LAMB over named whole tensors."""

    weights: State
    decays: dict[str, float]
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    dialect: str = "apex"
    use_nvlamb: bool = False
    alpha: float = 1.0
    steps: int = 0
    mean: State = field(default_factory=dict)
    square: State = field(default_factory=dict)
    innovation: State = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    def step(self, gradients: State, rate: float) -> None:
        """Update all weights."""
        self.steps += 1
        largest = max(weight.numel() for weight in self.weights.values())
        for name, weight in self.weights.items():
            for state in (self.mean, self.square, self.innovation):
                state.setdefault(name, torch.zeros_like(weight))
            if self.dialect == "innovation":
                self._innovation_step(name, gradients[name], rate)
            else:
                self._mean_step(name, gradients[name], rate, largest)

    def _mean_step(self, name: str, gradient: Any, rate: float, largest: int) -> None:
        weight, decay = self.weights[name], self.decays[name]
        c1, c2 = 1 - self.beta1**self.steps, 1 - self.beta2**self.steps
        self.mean[name] = self.beta1 * self.mean[name] + (1 - self.beta1) * gradient
        self.square[name] = self.beta2 * self.square[name] + (1 - self.beta2) * gradient * gradient
        mean = self.mean[name] if self.dialect == "embedding_gain" else self.mean[name] / c1
        update = mean / ((self.square[name] / c2).sqrt() + self.epsilon) + decay * weight
        norm, length = float(weight.norm()), float(update.norm())
        gain = 1.0
        if self.dialect == "apex":
            adapts = (self.use_nvlamb or decay != 0) and norm != 0 and length != 0
            ratio = norm / length if adapts else 1.0
        else:
            ratio = max(norm, 1e-5 * weight.numel()) / length
            if self.dialect == "embedding_gain":
                gain = 1 + self.alpha * weight.numel() / largest
        self.ratios[name] = ratio
        self.weights[name] = weight - rate * ratio * gain * update

    def _innovation_step(self, name: str, gradient: Any, rate: float) -> None:
        weight, before = self.weights[name], self.mean[name]
        c1, c2 = 1 - self.beta1**self.steps, 1 - self.beta2**self.steps
        difference = gradient - before
        self.square[name] = self.beta2 * self.square[name] + (1 - self.beta2) * gradient * gradient
        self.innovation[name] = self.beta2 * self.innovation[name] + (1 - self.beta2) * difference * difference
        along = before / c1 / ((self.square[name] / c2).sqrt() + self.epsilon)
        across = difference / c1 / ((self.innovation[name] / c2).sqrt() + self.epsilon)
        norm = max(float(weight.norm()), 1e-5 * weight.numel())
        self.ratios[name] = norm / float(across.norm())
        changed = (1 - rate * self.decays[name]) * weight - rate * self.ratios[name] * across
        if self.steps > 1:
            changed = changed - rate * norm / float(along.norm()) * along
        self.weights[name] = changed
        self.mean[name] = self.beta1 * before + (1 - self.beta1) * gradient
