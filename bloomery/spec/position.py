"""Define the position of a training: the counters that a checkpoint saves and that every schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Counters(Protocol):
    """Object with the counters of a training: a checkpoint's manifest or a record of metrics.jsonl."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    skipped_samples: int
    skipped_updates: int
    non_finite: int


@dataclass(frozen=True)
class Position:
    """Counters after an iteration. Iteration 0 is the start, before the first iteration."""

    iteration: int = 0
    consumed_samples: int = 0
    """Position in the order of samples. Skipped samples count too."""
    consumed_tokens: int = 0
    """Number of tokens that the model was trained on."""
    skipped_samples: int = 0
    """Number of consumed samples that the model was not trained on."""
    skipped_updates: int = 0
    """Number of iterations that did not update the weights."""
    non_finite: int = 0
    """Number of skipped updates whose loss or gradient was not finite."""

    @classmethod
    def of(cls, counters: Counters | None) -> Position:
        """Return the position that `counters` hold, or the start of the training for None."""
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
"""Position before the first iteration."""
