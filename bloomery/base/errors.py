"""The hierarchy of errors. An error states the place, the fault and what would be right, and has an exit code.

Exit codes: 0 done, 1 a check failed, 2 usage, 75 try again (EX_TEMPFAIL).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bloomery.base.written_values import as_written


class BloomeryError(Exception):
    """An error that a user can resolve. The command line prints it without a traceback.

    Values of the configuration's environment variables are shown as they were written (`${NAME}`).
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, expected: str | None = None) -> None:
        self.what = as_written(what)
        self.where = where if where is None else as_written(where)
        self.expected = expected if expected is None else as_written(expected)
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.expected:
            parts.append(f"expected: {self.expected}")
        super().__init__("; ".join(parts))


class ConfigError(BloomeryError):
    """The run's configuration is wrong. Nothing was started."""

    exit_code = 2

    def __init__(
        self, what: str, *, where: str | None = None, expected: str | None = None, problems: Sequence[Any] = ()
    ) -> None:
        super().__init__(what, where=where, expected=expected)
        self.problems = tuple(problems)
        """All problems of the configuration (`bloomery.config.section.Problem`). The tuple is empty if the error is not
        about single values, such as the error for an unreadable file."""


class InputError(BloomeryError):
    """Input data is missing, damaged or of the wrong kind."""


class CheckFailedError(BloomeryError):
    """The software's own output fails one of its checks."""


class ResourceError(BloomeryError):
    """The machine lacks something: disk space, permission, memory, a program."""


class NoSpaceError(ResourceError):
    """The disk is full, or the quota is used up. After space has been freed, the same call can succeed."""


class TryAgainError(BloomeryError):
    """A temporary fault (network, a lock held by another process). The same call may succeed later."""

    exit_code = 75
