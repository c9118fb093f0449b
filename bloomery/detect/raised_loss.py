"""Find raised losses in the records of a training: spikes that last, and slow divergence.

The detectors are those of the training's guards. A condition is found even if its guard is switched off.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bloomery.detect.divergence import DivergenceDetector
from bloomery.detect.finding import Finding, Kind, Severity
from bloomery.detect.spike import Spike, SpikeDetector

if TYPE_CHECKING:
    from bloomery.config.training_loop import DivergenceConfig, SpikeConfig
    from bloomery.contracts.metrics_record import MetricsRecord

_BURST = 16
"""Number of successive iterations in which spikes are counted."""
_LEAST_LENGTH = 0.8
"""Smallest ratio of two sequence lengths at which losses are compared."""
_SPIKE_ENDS = 64
"""A spike has ended if this many iterations followed it without another one."""
_DIVERGENCE_ENDS = 256
"""A divergence has ended if the loss was not too high in this many iterations. `DivergenceDetector` uses the same
number to decide whether a divergence is a new one."""


class SpikeBurst:
    """Detector of spikes that last several iterations.

    The noise of losses has heavy tails, so a single value far above the usual ones does not indicate a
    fault. In BLOOM's spike of 2022-04-12, the gradient norm rose for five iterations before the loss rose.
    """

    def __init__(self, settings: SpikeConfig, least_iterations: int) -> None:
        self._settings = settings
        self._detector = SpikeDetector(settings.window_iterations, settings.deviations)
        self._length = 0
        self._least = least_iterations
        self._recent: deque[int] = deque(maxlen=least_iterations)
        self._last = 0
        self._greatest: Spike | None = None
        self._burst_end: int | None = None

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        self._last = record.iteration
        if self._burst_end is not None and self._last - self._burst_end > _SPIKE_ENDS:
            self._burst_end = self._greatest = None
        shorter, longer = sorted((self._length, record.sequence_length or 0))
        if shorter < _LEAST_LENGTH * longer:
            # The loss depends on the length of the sequences.
            self._detector = SpikeDetector(self._settings.window_iterations, self._settings.deviations)
        self._length = record.sequence_length or 0
        spike = self._detector.seen(record.iteration, record.grad_norm, record.loss)
        if spike is None:
            return
        self._recent.append(record.iteration)
        if len(self._recent) == self._least and record.iteration - self._recent[0] < _BURST:
            self._burst_end = record.iteration
        if self._burst_end == record.iteration and (
            self._greatest is None or spike.deviations > self._greatest.deviations
        ):
            self._greatest = spike

    def finding(self) -> Finding | None:
        """Return the spike of the last iterations; None if the last iterations are normal."""
        if self._burst_end is None or self._greatest is None:
            return None
        return Finding(Kind.SPIKE, Severity.WARNING, f"{_capital(self._greatest.message)}.")


class RaisedLoss:
    """Detector of a loss that climbed slowly and is still high."""

    def __init__(self, settings: DivergenceConfig) -> None:
        self._detector = DivergenceDetector(settings.window_iterations, settings.least_rise, settings.deviations)
        self._what = ""
        self._last = 0

    def seen(self, record: MetricsRecord) -> None:
        """Add the record of the next iteration."""
        self._last = record.iteration
        found = self._detector.seen(record.iteration, record.loss, record.grad_norm, length=record.sequence_length or 0)
        if found is not None:
            self._what = f"{_capital(found.message)}."

    def finding(self) -> Finding | None:
        """Return the divergence that continues; None if the loss is not raised."""
        high = self._detector.last_high_iteration
        if not self._what or high is None or self._last - high > _DIVERGENCE_ENDS:
            return None
        return Finding(Kind.DIVERGENCE, Severity.CRITICAL, self._what)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
