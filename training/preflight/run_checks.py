"""Run checks of a machine that may be broken, within a time limit.

A defective GPU, a dead file server or a lost network link can make a call hang forever. The checks run in a thread, so
that the process itself can still report which check did not end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

State = TypeVar("State")


@dataclass
class Findings(Generic[State]):
    """Results of the checks so far."""

    state: State
    """Record to which the checks add their results."""
    check: str = "the start"
    """The check that runs now, in words."""
    failure: BaseException | None = field(default=None, init=False)

    def add(self, **values: Any) -> None:
        """Add results to the record, which is immutable."""
        self.state = self.state.model_copy(update=values)  # type: ignore[attr-defined]


def run_checks(checks: Callable[[Findings[State]], None], start: State, seconds: float) -> tuple[State, str | None]:
    """Call `checks` and return the record that it made, and the error that ended it.

    The error is None if all checks ended in time. Otherwise, the record has the results of the earlier checks.

    Args:
        checks: function that sets `check` before each check, and adds the results to the record.
        start: record to which the checks add their results.
        seconds: time limit of all checks. A check that does not end continues in a thread that does not keep the
            process alive.
    """
    findings = Findings(start)

    def call() -> None:
        try:
            checks(findings)
        except BaseException as error:
            findings.failure = error

    thread = threading.Thread(target=call, name="preflight", daemon=True)
    thread.start()
    thread.join(seconds)
    state = findings.state
    if thread.is_alive():
        return state, f"{findings.check} did not end within {seconds:g} s"
    # torch reports faults of GPUs and of the network as RuntimeError.
    if isinstance(findings.failure, RuntimeError | OSError):
        return state, f"{findings.check} failed: {_first_line(findings.failure)}"
    if findings.failure is not None:
        raise findings.failure
    return state, None


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
