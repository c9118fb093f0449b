"""The error for a damaged state in memory, which the training must not save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bloomery.base.errors import TryAgainError


class DamagedStateError(TryAgainError):
    """The state in memory is damaged. It is not saved, and the segment ends.

    The segment counts as a crash, so the next segment of the chain resumes from the newest good checkpoint. Every rank
    must raise this error. `training.loop.run_segment.train` then records an incident.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        event: Literal["non_finite", "drift"] = "non_finite",
        iteration: int = 0,
        nodes: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(what, where=where, expected=expected)
        self.event = event
        """Event to record."""
        self.iteration = iteration
        """Iteration after which the state was found to be damaged."""
        self.nodes = dict(nodes or {})
        """Node of each rank whose state may be damaged. Empty if these ranks are unknown."""


def not_finite_error(problems: list[tuple[int, str]], iteration: int) -> DamagedStateError:
    """Return the error for tensors that are not finite after `iteration`.

    `problems` has at least one pair of a rank and a description of its first tensor that is not finite.
    """
    rank, tensor = problems[0]
    others = len(problems) - 1
    more = f" (also tensors on {others} other rank{'s' * (others > 1)})" if others else ""
    return DamagedStateError(
        f"{tensor} on rank {rank} is not finite{more}; this state is not saved, and the next segment resumes from the "
        "newest good checkpoint",
        where=f"iteration {iteration}",
        expected="finite weights, master weights, moments and reference logits; if this happens again, lower "
        "training.optimizer.learning_rate, or skip the samples before this iteration with `bloomery train roll-back`; "
        "if the same rank is reported each time, check the device and the memory of this rank",
        iteration=iteration,
    )
