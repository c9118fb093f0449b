"""Define a finding: a condition of a run that a detector reports, and that may need a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding, in ascending order."""

    INFO = "info"
    """Nothing needs to be done."""
    WARNING = "warning"
    """The run continues, but a person should look at it."""
    CRITICAL = "critical"
    """The run does not progress, or will stop soon."""

    @property
    def rank(self) -> int:
        """Position in ascending order, from 0."""
        return list(Severity).index(self)


class Kind(StrEnum):
    """Kind of a condition. Each kind has a section in docs/how-to/alerts.md."""

    SPIKE = "spike"
    DIVERGENCE = "divergence"
    NON_FINITE = "non-finite"
    LOSS_SCALE = "loss-scale"
    VALIDATION = "validation"
    STALL = "stall"
    THROUGHPUT = "throughput"
    SLOW_RANK = "slow-rank"
    CHECKPOINT = "checkpoint"
    DISK = "disk"
    SYNC = "sync"
    IDLE = "idle"
    QUEUE_AGE = "queue-age"
    SCHEDULER = "scheduler"
    CRASH = "crash"
    CRASH_BUDGET = "crash-budget"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Finding:
    """A condition that holds now."""

    kind: Kind
    severity: Severity
    what: str
    """Description of the condition: one or two sentences with figures."""
    subject: str = ""
    """Name that distinguishes conditions of the same kind, such as the name of a validation set. Empty without such a
    name."""
    rank: int | None = None
    """Rank of the training that the condition is about. None if the condition is not about one rank."""
    hold_seconds: float = 0.0
    """Time for which the condition must hold at every look before it is reported."""

    @property
    def key(self) -> str:
        """Key by which repeated findings of the same condition are recognised."""
        return f"{self.kind}:{self.subject}" if self.subject else str(self.kind)
