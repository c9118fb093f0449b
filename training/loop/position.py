"""Where a training stands: what a checkpoint remembers of it, and all that its schedules are functions of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """The state after an iteration (0: before the first)."""

    iteration: int = 0
    consumed_samples: int = 0
    """Position in the order of the samples; those that were skipped count too."""
    consumed_tokens: int = 0
    """Tokens trained on."""
    skipped_samples: int = 0
    """Of the consumed samples, those that were not trained on."""
    skipped_updates: int = 0
    """Iterations that left the weights as they were."""
    non_finite: int = 0
    """Of them, those whose loss or gradient was not finite."""
