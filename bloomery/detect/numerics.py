"""Find numerical faults in the records of a training: values that are not finite, and a loss scale that collapses."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING

from bloomery.detect.finding import Finding, Kind, Severity

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import MetricsRecord

_NON_FINITE_ENDS = 64
"""Number of iterations for which a loss or gradient that is not finite is reported."""
_SCALES = 512
"""Number of iterations whose median loss scale is the usual loss scale."""
_LEAST_SCALES = 256
"""Minimum number of iterations before a fall is reported. The search for the first loss scale is shorter."""
_RECENT_SCALES = 8
"""The largest loss scale of this many last iterations is compared with the usual loss scale."""


class NonFinite:
    """Detector of losses and gradients that are not finite."""

    def __init__(self) -> None:
        self._iterations: deque[int] = deque(maxlen=_NON_FINITE_ENDS)
        self._last = 0

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        self._last = record.iteration
        if not record.is_finite:
            self._iterations.append(record.iteration)
        while self._iterations and self._last - self._iterations[0] >= _NON_FINITE_ENDS:
            self._iterations.popleft()

    def finding(self) -> Finding | None:
        """Return a finding if one of the last 64 iterations was not finite."""
        if not self._iterations:
            return None
        count = len(self._iterations)
        what = (
            f"The loss or the gradient was not finite in {count} of the last {_NON_FINITE_ENDS} iterations; the last "
            f"of them was iteration {self._iterations[-1]}."
        )
        return Finding(Kind.NON_FINITE, Severity.WARNING, what)


class LossScaleCollapse:
    """Detector of a loss scale (fp16) that fell far below its usual value."""

    def __init__(self, fall: float) -> None:
        """Prepare a detector. `fall` is the factor by which the loss scale must be smaller than its median."""
        self._fall = fall
        self._scales: deque[float] = deque(maxlen=_SCALES)
        self._iteration = 0

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        if record.loss_scale is not None:
            self._iteration = record.iteration
            self._scales.append(record.loss_scale)

    def finding(self) -> Finding | None:
        """Return a finding if the loss scale is too small now."""
        if len(self._scales) < _LEAST_SCALES:
            return None
        usual, now = median(self._scales), max(list(self._scales)[-_RECENT_SCALES:])
        if now * self._fall > usual:
            return None
        what = (
            f"The loss scale fell to {now:g} at iteration {self._iteration}; its median over the last "
            f"{len(self._scales)} iterations is {usual:g}. Gradients overflow repeatedly."
        )
        return Finding(Kind.LOSS_SCALE, Severity.WARNING, what)
