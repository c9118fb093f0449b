"""Find the values in a training log that differ from the plan.

Counters and learning rate must equal the planned values in every printed digit. Samples per second and TFLOPs must
agree with the printed time of the iteration, within its rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.trajectory import trajectory
from planner.planned_state import speed_at, state_of

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.contracts.logline import LogLine

TFLOPS_TOLERANCE = 0.01
SECONDS_ROUNDING = 0.005
"""Rounding error of the log's time in seconds, because the log prints two decimals."""


@dataclass(frozen=True)
class Departure:
    """Value of one column of one line that differs from the plan."""

    line: int
    """Line number in the log."""
    iteration: int
    column: str
    logged: str
    planned: str


def departures(
    config: RunConfig, lines: Iterable[tuple[int, LogLine]], gpu_count: int | None = None
) -> Iterator[Departure]:
    """Yield every value that differs from the plan, in the order of the log.

    `gpu_count` is the number of GPUs that the run used. If it is None, the number of GPUs of the layout is used.
    """
    run = trajectory(config.model, config.training)
    for number, line in lines:
        if not 1 <= line.iteration <= run.iterations:
            yield Departure(number, line.iteration, "iteration", str(line.iteration), f"1 to {run.iterations}")
            continue
        state = state_of(config, run.after_iteration(line.iteration))
        pairs: list[tuple[str, float | None, str, str]] = [
            ("total_iterations", line.total_iterations, "d", str(run.iterations)),
            ("consumed_samples", line.consumed_samples, "d", str(state.consumed_samples)),
            ("consumed_tokens", line.consumed_tokens, "d", str(state.consumed_tokens)),
            ("global_batch_size", line.global_batch_size, "d", str(state.global_batch_size)),
            ("learning_rate", line.learning_rate, ".3E", f"{state.learning_rate:.3E}"),
        ]
        for column, logged, form, planned in pairs:
            if logged is not None and f"{logged:{form}}" != planned:
                yield Departure(number, line.iteration, column, f"{logged:{form}}", planned)
        if not line.seconds:
            continue
        speed = speed_at(config, state, line.seconds, gpu_count)
        # If the printed time was rounded up, the true speed is higher than the computed speed by at most this share.
        slack = SECONDS_ROUNDING / max(line.seconds - SECONDS_ROUNDING, 1e-9)
        if line.samples_per_second is not None:
            allowed = speed.samples_per_second * slack + 0.0005
            if abs(line.samples_per_second - speed.samples_per_second) > allowed:
                planned = f"{speed.samples_per_second:.3f}"
                yield Departure(number, line.iteration, "samples_per_second", f"{line.samples_per_second:.3f}", planned)
        if line.tflops is not None:
            allowed = max(TFLOPS_TOLERANCE, speed.tflops_hardware * slack) + 0.005
            if abs(line.tflops - speed.tflops_hardware) > allowed:
                planned = f"{speed.tflops_hardware:.2f}"
                yield Departure(number, line.iteration, "tflops", f"{line.tflops:.2f}", planned)
