"""alerts/state.json: the alerts of a run, the messages that are not delivered yet, and the receivers.

The file is written atomically before a message is sent and after each delivery. So a killed watcher loses no message,
and repeats at most the one that it was sending.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.file_lock import file_lock
from bloomery.base.progress import say
from bloomery.contracts.paths import RunPaths

STATE_NAME = "state.json"
LOG_NAME = "alerts.jsonl"
_LOCK_NAME = ".lock"


class Alert(BaseModel):
    """One condition and what was sent about it. Times are in seconds of the Unix epoch."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    severity: Literal["info", "warning", "critical"]
    what: str
    where: str = ""
    done: str = ""
    command: str = ""
    since: float | None = None
    """Time of the look that first saw the condition; None if it does not hold."""
    sent: float | None = None
    """Time of the newest message about the condition; None if none was sent since it began."""
    acknowledged: str | None = None
    """Who acknowledged the alert; None if nobody did."""
    ended: float | None = None
    """Time when the last alert about this condition ended; None if there was none."""


class Message(BaseModel):
    """A message to people."""

    model_config = ConfigDict(extra="forbid")

    id: int
    """Number of the message within the run, from 1."""
    event: Literal["alert", "worse", "repeat", "recovery", "test"]
    """`worse`: the severity has risen. `repeat`: a critical alert that nobody acknowledged."""
    key: str
    severity: Literal["info", "warning", "critical"]
    run: str
    time: str
    """UTC time in ISO 8601."""
    at: float
    """The same time in seconds of the Unix epoch."""
    title: str
    text: str
    pending: list[str] = []
    """Receivers to which the message must still be delivered."""

    @property
    def public(self) -> dict[str, object]:
        """The message as receivers get it."""
        return self.model_dump(mode="json", exclude={"pending", "at"})


class Receiver(BaseModel):
    """State of a receiver of messages."""

    model_config = ConfigDict(extra="forbid")

    seen: float
    """Time when a watcher last had this receiver in its configuration and environment."""
    failures: int = 0
    """Number of failures in a row."""
    next_try: float = 0.0
    error: str = ""
    """Message of the last failure, without secrets."""


class AlertState(BaseModel):
    """Content of alerts/state.json."""

    model_config = ConfigDict(extra="forbid")

    alerts: dict[str, Alert] = {}
    """Alerts by their keys."""
    messages: list[Message] = []
    """Messages that are not delivered to every receiver yet, oldest first."""
    receivers: dict[str, Receiver] = {}
    """Receivers by their names."""
    count: int = 0
    """Number of messages so far."""
    looked: float = 0.0
    """Time of the last look."""
    workflow_looked: float = 0.0
    """Time of the last look by a watcher that a workflow started."""


def read_alert_state(paths: RunPaths) -> AlertState:
    """Read the state. A missing file is an empty state. A damaged file is reported and also counts as empty.

    Raises:
        TryAgainError: the disk or file server does not respond.
    """
    path = paths.alerts / STATE_NAME
    if not path.exists():
        return AlertState()
    try:
        return AlertState.model_validate(read_json(path))
    except (InputError, ValidationError):
        say(f"{path}: the file is damaged; alerts that hold now are sent again")
        return AlertState()


def write_alert_state(paths: RunPaths, state: AlertState) -> None:
    """Write the state atomically. Raises ResourceError or TryAgainError if the file cannot be written."""
    write_json(paths.alerts / STATE_NAME, state.model_dump(mode="json"))


def alert_lock(paths: RunPaths, wait_seconds: float = 0.0) -> AbstractContextManager[None]:
    """Hold the lock as the only process that changes the alerts of this run.

    Raises:
        TryAgainError: another process holds the lock for longer than `wait_seconds`.
        ResourceError: the folder of the lock cannot be written.
    """
    busy = TryAgainError(
        "another process looks at this run now",
        where=str(paths.alerts),
        expected="wait a few seconds, then repeat the command",
    )
    return file_lock(paths.alerts / _LOCK_NAME, wait_seconds, busy)
