"""Detect spikes of the gradient norm and the loss: values far above those of the last iterations.

A value is compared with the median of a window of iterations, in units of the window's median absolute deviation. Both
are computed from logarithms, because gradient norm and loss change by factors. A few extreme values hardly affect
either of them.

Every value, spikes included, is then added to the window. After a lasting change, such as a new sequence length, the
new values are therefore considered normal after half a window.

The only state is the window, which `replay` rebuilds from metrics.jsonl. A resumed training therefore decides exactly
like an uninterrupted one.
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
"""Ratio of a normal distribution's standard deviation to its median absolute deviation."""
_LEAST_DEVIATION = {GRADIENT_NORM: 0.05, LOSS: 0.005}
"""Smallest standard deviation of the logarithms that is used.

A real training varies at least this much. Without the limit, a window of nearly equal values would make every small
increase a spike.
"""
_QUIET_ITERATIONS = 16
"""Number of iterations. A spike is a new one if the last spike occurred more than this many iterations ago."""


@dataclass(frozen=True)
class Spike:
    """Value of one iteration that is far above the median of its window."""

    iteration: int
    quantity: str
    """Name of the quantity: `gradient norm` or `loss`."""
    value: float
    usual: float
    """Median of the window."""
    deviations: float
    """Distance of the value's logarithm from the median, in robust standard deviations."""
    begins: bool
    """Whether this is a new spike, and not a further iteration of a continuing one."""

    @property
    def message(self) -> str:
        """Message for the log."""
        return (
            f"{self.quantity} {self.value:.4g} at iteration {self.iteration} is {self.deviations:.1f} robust standard "
            f"deviations above {self.usual:.4g}, the median of recent iterations"
        )


class SpikeDetector:
    """Detector of spikes in the gradient norm, which usually rises first, and in the loss."""

    def __init__(self, window: int, deviations: float) -> None:
        """Prepare a detector.

        Args:
            window: number of iterations whose median is the reference. Values are judged only once half of the window
                is filled.
            deviations: robust standard deviations above the median from which a value is a spike.
        """
        self._least_values = max(2, window // 2)
        self._deviations = deviations
        self._windows: dict[str, deque[float]] = {name: deque(maxlen=window) for name in (GRADIENT_NORM, LOSS)}
        self._last_spike: int | None = None

    def seen(self, iteration: int, grad_norm: float | None, loss: float | None) -> Spike | None:
        """Judge an iteration by the previous ones, then add it to the window. Return the spike, or None.

        If both quantities have a spike, the gradient norm's is returned. Values that are None, not finite or not
        positive are ignored, because another guard handles them.
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
        """Return whether this gradient norm would be a spike, without recording it. It is called before the update."""
        return _usable(grad_norm) and self._judge(GRADIENT_NORM, grad_norm)[1] > self._deviations

    def replay(self, records: Iterable[MetricsRecord]) -> None:
        """Add the last records of a training, in order."""
        for record in records:
            self.seen(record.iteration, record.grad_norm, record.loss)

    def _judge(self, quantity: str, value: float) -> tuple[float, float]:
        """Return (median of the window, deviations of `value` above it).

        The deviation is 0 until enough values are known.
        """
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
