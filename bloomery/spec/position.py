"""The position of a training: the counters that a checkpoint saves and that every schedule is a function of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Counters(Protocol):
    """What holds the counters of a training: a checkpoint's manifest, or a record of metrics.jsonl."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    skipped_samples: int
    skipped_updates: int
    non_finite: int


@dataclass(frozen=True)
class Position:
    """The state after an iteration (0: before the first)."""

    iteration: int = 0
    consumed_samples: int = 0
    """Position in the order of the samples; skipped samples count too."""
    consumed_tokens: int = 0
    """Tokens that were trained on."""
    skipped_samples: int = 0
    """Consumed samples that were not trained on."""
    skipped_updates: int = 0
    """Iterations that left the weights as they were."""
    non_finite: int = 0
    """Skipped updates whose loss or gradient was not finite."""

    @classmethod
    def of(cls, counters: Counters | None) -> Position:
        """Return the position that `counters` hold; the start of the training for None."""
        if counters is None:
            return START
        return Position(
            iteration=counters.iteration,
            consumed_samples=counters.consumed_samples,
            consumed_tokens=counters.consumed_tokens,
            skipped_samples=counters.skipped_samples,
            skipped_updates=counters.skipped_updates,
            non_finite=counters.non_finite,
        )


START = Position()
"""Before the first iteration."""
