"""Make an incident of the event `spike`."""

from __future__ import annotations

from training.guards.incident import Incident


def spike(iteration: int, samples: tuple[int, int] | None = (96, 112)) -> Incident:
    begin, end = samples or (None, None)
    return Incident(
        iteration=iteration,
        event="spike",
        action="log",
        values={"grad_norm": 15.9, "usual": 0.242, "loss": None},
        from_sample=begin,
        to_sample=end,
        message="gradient norm 15.9",
    )
