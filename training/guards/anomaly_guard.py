"""Watches the loss and the gradient norm: spikes, and values that are not finite, and what is to be done about them.

Every rank watches the same numbers, for each leaves out an update by itself; what is said and done beyond that is rank
0's verdict, which the poll spreads.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bloomery.config.training_loop import GuardsConfig
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.detect.spike import Spike, SpikeDetector

Action = Literal["log", "skip", "roll_back", "stop"]


@dataclass(frozen=True)
class Outcome:
    """What an iteration came to."""

    iteration: int
    from_sample: int
    """consumed_samples before it."""
    to_sample: int
    """consumed_samples after it."""
    loss: float
    grad_norm: float
    """Before clipping."""
    left_out: bool
    """Its update was left out."""
    overflowed: bool = False
    """fp16: left out in the search for a loss scale, which is no event."""

    @property
    def is_finite(self) -> bool:
        """Whether its loss and gradient are."""
        return math.isfinite(self.loss) and (self.overflowed or math.isfinite(self.grad_norm))


@dataclass(frozen=True)
class Verdict:
    """An event, and what is done."""

    event: Literal["spike", "non_finite"]
    action: Action
    message: str
    values: dict[str, float | None]
    """What was measured and what is usual; None: not finite."""
    skip: range
    """Samples that a roll-back leaves out."""


class AnomalyGuard:
    """State is the last iterations alone, so that a training that resumed watches as one that was never interrupted."""

    def __init__(
        self, guards: GuardsConfig, past: Sequence[MetricsRecord] = (), roll_backs: int = 0, least_scale: float = 1.0
    ) -> None:
        """Prepare a watch.

        Args:
            guards: what to watch for.
            past: the last iterations before this segment's first, in order.
            roll_backs: of this training so far.
            least_scale: fp16: the loss scale at which an overflow is no search for a lower one any more.
        """
        self._guards = guards
        self._roll_backs = roll_backs
        spike = guards.spike
        self._detector = None if spike is None else SpikeDetector(spike.window_iterations, spike.deviations)
        # consumed_samples before each of the last iterations.
        self._starts: deque[int] = deque(maxlen=guards.roll_back_iterations + 1)
        self._in_a_row = 0
        if self._detector is not None:
            self._detector.replay(past)
        for before, record in zip([None, *past], past, strict=False):
            if before is not None:
                self._starts.append(before.consumed_samples)
            self._in_a_row = self._in_a_row + 1 if _was_left_out(record, least_scale) else 0

    def leaves_out(self, grad_norm: float) -> bool:
        """Whether the update of a gradient of this norm is to be left out (`UpdateGate.decide`)."""
        if not math.isfinite(grad_norm):
            return True
        spike = self._guards.spike
        return (
            spike is not None
            and spike.action == "skip"
            and self._detector is not None
            and self._detector.is_high(grad_norm)
        )

    def seen(self, outcome: Outcome) -> Verdict | None:
        """Take in an iteration; what is to be said and done, if anything."""
        self._starts.append(outcome.from_sample)
        self._in_a_row = self._in_a_row + 1 if outcome.left_out and not outcome.overflowed else 0
        spike = None
        if self._detector is not None:
            spike = self._detector.seen(outcome.iteration, outcome.grad_norm, outcome.loss)
        if not outcome.is_finite:
            return self._judged("non_finite", self._guards.non_finite, _not_finite(outcome), outcome, {})
        if spike is None:
            return None
        usual: dict[str, float | None] = {"usual": spike.usual, "deviations": spike.deviations}
        action = self._on_spike(spike, outcome.left_out)
        return None if action is None else self._judged("spike", action, spike.message, outcome, usual)

    def _on_spike(self, spike: Spike, left_out: bool) -> Action | None:
        """What to do; None: one more iteration of a spike that was told, and nothing to do about it."""
        if left_out:
            return "skip"
        if self._guards.spike is not None and self._guards.spike.action == "roll_back":
            return "roll_back"
        return "log" if spike.begins else None

    def _judged(
        self,
        event: Literal["spike", "non_finite"],
        action: Action,
        message: str,
        outcome: Outcome,
        measured: dict[str, float | None],
    ) -> Verdict:
        guards, skip = self._guards, range(self._starts[0], outcome.to_sample)
        if action == "roll_back" and self._roll_backs >= guards.max_roll_backs:
            action = "stop"
            message += f"; the training went back {self._roll_backs} times already (training.guards.max_roll_backs)"
        elif self._in_a_row > guards.max_skipped_updates:
            action = "stop"
            message += f"; {self._in_a_row} updates in a row were left out (training.guards.max_skipped_updates)"
        elif action == "roll_back":
            message += f"; going back, samples {skip.start} to {skip.stop - 1} will be skipped"
        elif action == "skip":
            message += "; its update is left out"
        values = {"loss": _finite(outcome.loss), "grad_norm": _finite(outcome.grad_norm)} | measured
        return Verdict(event, action, message, values, skip)


def _not_finite(outcome: Outcome) -> str:
    what = [
        f"{name} is {value}"
        for name, value in (("the loss", outcome.loss), ("the gradient norm", outcome.grad_norm))
        if not math.isfinite(value)
    ]
    return f"{' and '.join(what)} at iteration {outcome.iteration}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _was_left_out(record: MetricsRecord, least_scale: float) -> bool:
    """Whether an update was left out that the guards counted: not in the search for a loss scale."""
    overflowed = record.loss_scale is not None and record.grad_norm is None and record.loss is not None
    return record.update_skipped and not (overflowed and (record.loss_scale or 0.0) > least_scale)
