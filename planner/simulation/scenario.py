"""What a simulation plays: the work, and what may interrupt it. Numbers only, so that anything can be simulated."""

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
    """Iterations that take equally long, such as one rung of the batch ladder."""

    iterations: int
    seconds: float
    """Of one iteration."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A training and its interruptions. All waiting times are exponential: what comes next forgets what was."""

    phases: tuple[Phase, ...]
    """The iterations, in order."""
    save_every_iterations: int
    """A save after each multiple of this, and after the last iteration."""
    save_rules: tuple[tuple[int, int], ...] = ()
    """(last iteration, interval) of the first part of the training, in order; behind it `save_every_iterations`."""
    save_at_iterations: tuple[int, ...] = ()
    """Saves after these as well; their checkpoints are kept for good."""
    save_seconds: float = 0.0
    """The training stands still so long for a save."""
    validation_every_iterations: int
    """A validation after each multiple of this, before a save that is due as well, and after the last iteration."""
    validation_seconds: float = 0.0
    """The training stands still so long for a validation."""
    job_seconds: float | None = None
    """Age at which a job is told to end: it ends its iteration, saves and leaves. None: never."""
    job_iterations: int | None = None
    """Iterations after which a job saves and leaves. None: no such limit."""
    queue_hours: float = 0.0
    """Mean wait of each job, the first included; 0: a reservation."""
    restart_minutes: float = 0.0
    """From a job's start to its first new iteration; a failure in it begins it anew, with a new job."""
    days_between_failures: float | None = None
    """Mean days in a job until it fails; what was not saved is lost. None: no failures."""
    days_between_maintenances: float | None = None
    """Mean days from one maintenance to the next, which no save precedes. None: no maintenances."""
    maintenance_hours: float = 0.0
    """Mean length of a maintenance."""
    days_between_stops: float | None = None
    """Mean days of training between restarts that people want: a save, then a new job. None: none."""
    keep_last: int = 1
    """Newest checkpoints kept."""
    keep_every_iterations: int | None = None
    """Checkpoints at multiples of this are kept for good. None: no others."""

    def __post_init__(self) -> None:
        """Raise ConfigError for numbers that no training has."""
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
        """All iterations."""
        return sum(phase.iterations for phase in self.phases)

    @property
    def checkpoint(self) -> CheckpointConfig:
        """When to save and what to keep, as the training takes it."""
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
    """The scenario of a run: its batch ladder, saves and segments, and the faults that its plan assumes.

    Raises ConfigError when a job is too short for its own start and end.
    """
    from bloomery.spec.duration import ladder_seconds, save_seconds

    training, faults = config.training, config.plan.faults
    phases = tuple(Phase(iterations, seconds) for iterations, seconds in ladder_seconds(config) if iterations)
    save = save_seconds(config)
    limits = []
    if training.segment.minutes is not None:
        limits.append(60 * training.segment.minutes)
    if faults.job_hours is not None:
        # The room that the training loop leaves before the end of its job (training/loop/segment_deadline.py).
        reserve = 60 * training.segment.margin_minutes + 1.5 * save + 2 * max(phase.seconds for phase in phases)
        limits.append(3600 * faults.job_hours - reserve)
        if limits[-1] <= 60 * faults.restart_minutes:
            raise ConfigError(
                f"a job of {faults.job_hours:g} h ends before its first iteration",
                where="plan.faults.job_hours",
                expected=f"more than {(60 * faults.restart_minutes + reserve) / 3600:.2f} h: start, margin and save",
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
