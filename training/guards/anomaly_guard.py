"""Detect spikes, slow divergence and non-finite values of loss and gradient norm, and decide which action to take.

Every rank checks the same numbers, so each rank can skip an update on its own. Rank 0's verdict decides on all other
actions and on log messages, and the control poll sends the verdict to every rank.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bloomery.config.training_loop import GuardsConfig
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.detect.divergence import Divergence, DivergenceDetector
from bloomery.detect.spike import Spike, SpikeDetector

Action = Literal["log", "skip", "roll_back", "stop"]
Event = Literal["spike", "divergence", "non_finite"]


@dataclass(frozen=True)
class Outcome:
    """Result of an iteration."""

    iteration: int
    from_sample: int
    """`consumed_samples` before the iteration."""
    to_sample: int
    """`consumed_samples` after the iteration."""
    loss: float
    grad_norm: float
    """Gradient norm before clipping."""
    left_out: bool
    """Whether the update was skipped."""
    overflowed: bool = False
    """Whether the update was skipped because of an fp16 overflow during the loss-scale search. This is not an event."""
    sequence_length: int | None = None
    """Sequence length in tokens, as in the iteration's record. None unless a curriculum is configured."""

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient norm are finite. An overflow during the loss-scale search counts as finite."""
        return math.isfinite(self.loss) and (self.overflowed or math.isfinite(self.grad_norm))


@dataclass(frozen=True)
class Verdict:
    """An event and the action to take."""

    event: Event
    action: Action
    message: str
    values: dict[str, float | None]
    """Measured and usual values, by name. A value that is not finite is None."""
    skip: range
    """Range of samples that a roll-back skips."""


def past_iterations(guards: GuardsConfig) -> int:
    """Return the number of past iterations that a resumed training needs to reach the same verdicts."""
    needed = guards.roll_back_iterations + guards.max_skipped_updates + 2
    if guards.spike is not None:
        # The spike detector skips non-finite values, so its window may cover more iterations than its length.
        needed = max(needed, 2 * guards.spike.window_iterations)
    if guards.divergence is not None:
        own = DivergenceDetector.records_needed(guards.divergence.window_iterations)
        needed = max(needed, own + guards.roll_back_iterations + 1)
    return needed


class AnomalyGuard:
    """Judge each iteration and choose the action.

    The state depends only on the last iterations and the number of roll-backs. So a resumed training reaches the same
    verdicts as an uninterrupted training.
    """

    def __init__(
        self,
        guards: GuardsConfig,
        past: Sequence[MetricsRecord] = (),
        roll_backs: int = 0,
        least_scale: float = 1.0,
        mixture_changes: Sequence[int] = (),
    ) -> None:
        """Restore the guard's state from the past iterations.

        Args:
            guards: configuration of the guards.
            past: records of the last iterations before this segment, in order.
            roll_backs: number of roll-backs that guards of this training have made so far.
            least_scale: minimum loss scale of fp16. An overflow at this scale is not part of the loss-scale search.
            mixture_changes: first sample of each stage of the blend after the first stage, in ascending order. The
                level of the loss may change there.
        """
        self._guards = guards
        self._roll_backs = roll_backs
        spike = guards.spike
        self._detector = None if spike is None else SpikeDetector(spike.window_iterations, spike.deviations)
        divergence = guards.divergence
        self._trend = (
            None
            if divergence is None
            else DivergenceDetector(divergence.window_iterations, divergence.least_rise, divergence.deviations)
        )
        self._mixture_changes = mixture_changes
        # `consumed_samples` before each of the last iterations.
        self._starts: deque[int] = deque(maxlen=past_iterations(guards))
        self._in_a_row = 0
        if self._detector is not None:
            self._detector.replay(past)
        for record in past:
            self._find_divergence(
                record.iteration, record.loss, record.grad_norm, record.sequence_length, record.consumed_samples
            )
        for before, record in zip([None, *past], past, strict=False):
            if before is not None:
                self._starts.append(before.consumed_samples)
            self._in_a_row = self._in_a_row + 1 if _was_left_out(record, least_scale) else 0

    def leaves_out(self, grad_norm: float) -> bool:
        """Whether to skip the update of a gradient with this norm. Used as `UpdateGate.decide`."""
        if not math.isfinite(grad_norm):
            return True
        spike = self._guards.spike
        return (
            spike is not None
            and spike.action == "skip"
            and self._detector is not None
            and self._detector.is_high(grad_norm)
        )

    def seen(self, outcome: Outcome) -> list[Verdict]:
        """Record an iteration and return the verdicts. The list is empty if nothing is to be logged or done."""
        self._starts.append(outcome.from_sample)
        self._in_a_row = self._in_a_row + 1 if outcome.left_out and not outcome.overflowed else 0
        spike = None
        if self._detector is not None:
            spike = self._detector.seen(outcome.iteration, outcome.grad_norm, outcome.loss)
        divergence = self._find_divergence(
            outcome.iteration, outcome.loss, outcome.grad_norm, outcome.sequence_length, outcome.to_sample
        )
        verdicts = []
        if not outcome.is_finite:
            verdicts.append(self._judged("non_finite", self._guards.non_finite, _not_finite(outcome), outcome, {}))
        elif spike is not None and (action := self._on_spike(spike, outcome.left_out)) is not None:
            usual: dict[str, float | None] = {"usual": spike.usual, "deviations": spike.deviations}
            verdicts.append(self._judged("spike", action, spike.message, outcome, usual))
        if divergence is not None and self._guards.divergence is not None:
            climb: dict[str, float | None] = {
                "level": divergence.loss,
                "best": divergence.best,
                "deviations": divergence.deviations,
                "grad_norm_ratio": divergence.grad_norm_ratio,
            }
            before = outcome.iteration - divergence.begin - 1 + self._guards.roll_back_iterations
            action = self._guards.divergence.action
            verdicts.append(self._judged("divergence", action, divergence.message, outcome, climb, before))
        return verdicts

    def _find_divergence(
        self, iteration: int, loss: float | None, norm: float | None, length: int | None, to_sample: int
    ) -> Divergence | None:
        """Add an iteration to the trend of the loss. Return the divergence if a new one is found."""
        if self._trend is None:
            return None
        stage = bisect_right(self._mixture_changes, to_sample - 1)
        return self._trend.seen(iteration, loss, norm, length=length or 0, stage=stage)

    def _on_spike(self, spike: Spike, left_out: bool) -> Action | None:
        """Return the action for a spike. Return None if the spike was logged before and needs no other action."""
        if left_out:
            return "skip"
        if self._guards.spike is not None and self._guards.spike.action == "roll_back":
            return "roll_back"
        return "log" if spike.begins else None

    def _judged(
        self,
        event: Event,
        action: Action,
        message: str,
        outcome: Outcome,
        measured: dict[str, float | None],
        before: int | None = None,
    ) -> Verdict:
        """Build the verdict. The action becomes "stop" if no roll-back is left or too many updates were skipped.

        A roll-back also skips the samples of `before` earlier iterations (None: `roll_back_iterations`).
        """
        guards = self._guards
        first = -1 - min(guards.roll_back_iterations if before is None else before, len(self._starts) - 1)
        skip = range(self._starts[first], outcome.to_sample)
        if action == "roll_back" and self._roll_backs >= guards.max_roll_backs:
            action = "stop"
            message += (
                f"; the training stops, because guards have already rolled back {self._roll_backs} times "
                f"(training.guards.max_roll_backs = {guards.max_roll_backs})"
            )
        elif self._in_a_row > guards.max_skipped_updates and event != "divergence":
            action = "stop"
            message += (
                f"; the training stops, because {self._in_a_row} updates in a row were skipped "
                f"(training.guards.max_skipped_updates = {guards.max_skipped_updates})"
            )
        elif action == "roll_back":
            message += f"; the training rolls back and skips samples {skip.start} to {skip.stop - 1}"
        elif action == "skip":
            message += "; the update is skipped"
        elif action == "stop" and event == "divergence":
            message += "; the training stops (training.guards.divergence.action = stop)"
        values = {"loss": _finite(outcome.loss), "grad_norm": _finite(outcome.grad_norm)} | measured
        return Verdict(event, action, message, values, skip)


def _not_finite(outcome: Outcome) -> str:
    """Describe which values are not finite."""
    what = [
        f"{name} is {value}"
        for name, value in (("the loss", outcome.loss), ("the gradient norm", outcome.grad_norm))
        if not math.isfinite(value)
    ]
    return f"{' and '.join(what)} at iteration {outcome.iteration}"


def _finite(value: float) -> float | None:
    """Return `value`, or None if `value` is not finite."""
    return value if math.isfinite(value) else None


def _was_left_out(record: MetricsRecord, least_scale: float) -> bool:
    """Whether an update was skipped and counts towards the limit. Overflows of the loss-scale search do not count."""
    overflowed = record.loss_scale is not None and record.grad_norm is None and record.loss is not None
    return record.update_skipped and not (overflowed and (record.loss_scale or 0.0) > least_scale)
