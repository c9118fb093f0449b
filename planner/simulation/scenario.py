"""Define the input of a simulation: the work and its possible interruptions.

A scenario contains only numbers, so that any training can be simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bloomery.base.errors import ConfigError
from bloomery.config.training_loop import CheckpointConfig, SaveRule

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


class Phase(NamedTuple):
    """Consecutive iterations that take the same time, such as those of one global batch size."""

    iterations: int
    seconds: float
    """Seconds of one iteration."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A training and its interruptions. All waiting times are exponentially distributed, so the next event does not
    depend on the past."""

    phases: tuple[Phase, ...]
    """All iterations, in order."""
    save_every_iterations: int
    """Iterations between saves. A save also follows the last iteration."""
    save_rules: tuple[tuple[int, int], ...] = ()
    """Other intervals in the first part of the training: (last iteration, interval), in order.

    After the last rule, `save_every_iterations` applies.
    """
    save_at_iterations: tuple[int, ...] = ()
    """Additional iterations after which a checkpoint is saved. These checkpoints are never removed."""
    save_seconds: float = 0.0
    """Seconds for which a save stops the training."""
    validation_every_iterations: int
    """Iterations between validations. A validation also follows the last iteration. If a validation and a save follow
    the same iteration, the validation is first."""
    validation_seconds: float = 0.0
    """Seconds for which a validation stops the training."""
    job_seconds: float | None = None
    """Seconds after which a job is told to end. It then completes its iteration, saves and ends. None if there is no
    limit."""
    job_iterations: int | None = None
    """Iterations after which a job saves and ends; None if there is no such limit."""
    queue_hours: float = 0.0
    """Mean hours that each job, including the first, waits in the queue; 0 for a reservation."""
    restart_minutes: float = 0.0
    """Minutes from a job's start to its first new iteration. If the job fails during this time, a new job has to
    start."""
    days_between_failures: float | None = None
    """Mean days of job time until a failure, which loses all unsaved work. None if there are no failures."""
    days_between_maintenances: float | None = None
    """Mean days from one maintenance to the next. No save precedes a maintenance. None if there are no maintenances."""
    maintenance_hours: float = 0.0
    """Mean hours of a maintenance."""
    days_between_stops: float | None = None
    """Mean days of training between planned restarts, which save and start a new job; None for no planned restarts."""
    keep_last: int = 1
    """Number of newest checkpoints that are retained."""
    keep_every_iterations: int | None = None
    """Checkpoints at multiples of this number of iterations are never removed; None if this rule is not used."""

    def __post_init__(self) -> None:
        """Raise ConfigError for numbers that are impossible for a training."""
        at_least_one = {
            "save_every_iterations": self.save_every_iterations,
            "save_rules": min((number for rule in self.save_rules for number in rule), default=None),
            "save_at_iterations": min(self.save_at_iterations, default=None),
            "validation_every_iterations": self.validation_every_iterations,
            "keep_last": self.keep_last,
            "keep_every_iterations": self.keep_every_iterations,
            "job_iterations": self.job_iterations,
            "iterations of a phase": min((phase.iterations for phase in self.phases), default=0),
        }
        above_zero = {
            "seconds of an iteration": min((phase.seconds for phase in self.phases), default=0.0),
            "days_between_failures": self.days_between_failures,
            "days_between_maintenances": self.days_between_maintenances,
            "days_between_stops": self.days_between_stops,
        }
        at_least_zero = {
            "save_seconds": self.save_seconds,
            "validation_seconds": self.validation_seconds,
            "job_seconds": self.job_seconds,
            "queue_hours": self.queue_hours,
            "restart_minutes": self.restart_minutes,
            "maintenance_hours": self.maintenance_hours,
        }
        _require(at_least_one, lambda value: value >= 1, "1 or more")
        _require(above_zero, lambda value: value > 0, "more than 0")
        _require(at_least_zero, lambda value: value >= 0, "0 or more")

    @property
    def iterations(self) -> int:
        """Number of all iterations."""
        return sum(phase.iterations for phase in self.phases)

    @property
    def checkpoint(self) -> CheckpointConfig:
        """Rules for saving and retaining checkpoints, as a section of the training's configuration."""
        return CheckpointConfig(
            every_iterations=self.save_every_iterations,
            schedule=[SaveRule(until_iteration=until, every_iterations=every) for until, every in self.save_rules],
            at_iterations=list(self.save_at_iterations),
            keep_last=self.keep_last,
            keep_every_iterations=self.keep_every_iterations,
        )


def _require(
    values: dict[str, float | None] | dict[str, int | None], right: Callable[[float], bool], rule: str
) -> None:
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and right(value)):
            raise ConfigError(f"{name} is {value}", where="simulation", expected=rule)


def scenario_of(config: RunConfig) -> Scenario:
    """Return the scenario of a run: its iterations, saves and segments, and the failures that its plan assumes.

    Raises:
        ConfigError: a job is so short that it would end before its first iteration.
    """
    from bloomery.spec.duration import ladder_seconds, save_seconds

    training, faults = config.training, config.plan.faults
    phases = tuple(Phase(iterations, seconds) for iterations, seconds in ladder_seconds(config) if iterations)
    save = save_seconds(config)
    limits = []
    if training.segment.minutes is not None:
        limits.append(60 * training.segment.minutes)
    if faults.job_hours is not None:
        # Time that the training loop reserves before the end of its job (training/loop/segment_deadline.py).
        reserve = 60 * training.segment.margin_minutes + 1.5 * save + 2 * max(phase.seconds for phase in phases)
        limits.append(3600 * faults.job_hours - reserve)
        if limits[-1] <= 60 * faults.restart_minutes:
            raise ConfigError(
                f"a job of {faults.job_hours:g} h ends before its first iteration",
                where="plan.faults.job_hours",
                expected=f"more than {(60 * faults.restart_minutes + reserve) / 3600:.2f} h: the time for the start "
                "(plan.faults.restart_minutes), margin (training.segment.margin_minutes), a save and two iterations",
            )
    return Scenario(
        phases=phases,
        save_every_iterations=training.checkpoint.every_iterations,
        save_rules=tuple((rule.until_iteration, rule.every_iterations) for rule in training.checkpoint.schedule),
        save_at_iterations=tuple(training.checkpoint.at_iterations),
        save_seconds=save,
        validation_every_iterations=training.validation.every_iterations,
        validation_seconds=config.plan.validation_seconds,
        job_seconds=min(limits, default=None),
        job_iterations=training.segment.iterations,
        queue_hours=faults.queue_hours,
        restart_minutes=faults.restart_minutes,
        days_between_failures=faults.days_between_failures,
        days_between_maintenances=faults.days_between_maintenances,
        maintenance_hours=faults.maintenance_hours,
        keep_last=training.checkpoint.keep_last,
        keep_every_iterations=training.checkpoint.keep_every_iterations,
    )
