"""Spikes of the gradient norm and of the loss: values far above what the last iterations had.

Usual and spread are median and median absolute deviation over a window, of logarithms: both quantities move by
factors, and a few wild values change neither. What is judged also enters the window, so that a lasting change (another
length of samples, say) becomes the usual after half a window and is not reported for ever.

Pure: state is the window alone, rebuilt from metrics.jsonl by `replay`, so a training that resumed decides as one that
was never interrupted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import MetricsRecord

GRADIENT_NORM, LOSS = "gradient norm", "loss"

_MAD_TO_DEVIATION = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_LEAST_DEVIATION = {GRADIENT_NORM: 0.05, LOSS: 0.005}
"""Of the logarithms: so calm that a smaller rise counts is no training, only a window of equal values."""
_QUIET_ITERATIONS = 16
"""A spike after so many iterations without one is a new one."""


@dataclass(frozen=True)
class Spike:
    """One iteration's value far above the usual."""

    iteration: int
    quantity: str
    """`gradient norm` or `loss`."""
    value: float
    usual: float
    """Median of the window."""
    deviations: float
    """Robust standard deviations of the logarithm above the usual one."""
    begins: bool
    """Whether it is the first of its kind for a while, and not one more iteration of a spike that goes on."""

    @property
    def message(self) -> str:
        """In words."""
        return (
            f"{self.quantity} {self.value:.4g} is {self.deviations:.1f} deviations above the usual {self.usual:.4g} "
            f"at iteration {self.iteration}"
        )


class SpikeDetector:
    """Watches the gradient norm, which leads, and the loss."""

    def __init__(self, window: int, deviations: float) -> None:
        """Prepare a detector.

        Args:
            window: iterations that say what is usual; nothing is judged before half of them were seen.
            deviations: a value so many robust standard deviations above the usual one is a spike.
        """
        self._least_values = max(2, window // 2)
        self._deviations = deviations
        self._windows: dict[str, deque[float]] = {name: deque(maxlen=window) for name in (GRADIENT_NORM, LOSS)}
        self._last_spike: int | None = None

    def seen(self, iteration: int, grad_norm: float | None, loss: float | None) -> Spike | None:
        """Judge an iteration by those before it, then count it to them. Of two spikes the gradient norm's is told.

        Values that are None, not finite or not positive are passed over: another guard's matter.
        """
        spike: Spike | None = None
        for quantity, value in ((GRADIENT_NORM, grad_norm), (LOSS, loss)):
            if not _usable(value):
                continue
            usual, deviations = self._judge(quantity, value)
            self._windows[quantity].append(math.log(value))
            if deviations > self._deviations and spike is None:
                spike = Spike(iteration, quantity, value, usual, deviations, self._begins(iteration))
        if spike is not None:
            self._last_spike = iteration
        return spike

    def is_high(self, grad_norm: float) -> bool:
        """Whether this gradient norm would be a spike; nothing is recorded. For a decision before the update."""
        return _usable(grad_norm) and self._judge(GRADIENT_NORM, grad_norm)[1] > self._deviations

    def replay(self, records: Iterable[MetricsRecord]) -> None:
        """Take in the last records of a training, in order."""
        for record in records:
            self.seen(record.iteration, record.grad_norm, record.loss)

    def _judge(self, quantity: str, value: float) -> tuple[float, float]:
        """(what is usual, deviations of `value` above it); no deviation while too little was seen."""
        logs = self._windows[quantity]
        if len(logs) < self._least_values:
            return value, 0.0
        usual = median(logs)
        spread = _MAD_TO_DEVIATION * median(abs(each - usual) for each in logs)
        return math.exp(usual), (math.log(value) - usual) / max(spread, _LEAST_DEVIATION[quantity])

    def _begins(self, iteration: int) -> bool:
        return self._last_spike is None or iteration - self._last_spike > _QUIET_ITERATIONS


def _usable(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value > 0
