"""One hierarchy of errors; each says where, what, and what would be right, and carries its exit code.

Exit codes (`design/style.md`): 0 done, 1 a check failed, 2 usage, 75 try again (EX_TEMPFAIL).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class BloomeryError(Exception):
    """A failure that a person can act on. The command line prints it without a traceback."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, expected: str | None = None) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        parts = [f"{where}: {what}" if where else what]
        if expected:
            parts.append(f"expected: {expected}")
        super().__init__("; ".join(parts))


class ConfigError(BloomeryError):
    """The run's configuration is wrong; nothing was started."""

    exit_code = 2

    def __init__(
        self, what: str, *, where: str | None = None, expected: str | None = None, problems: Sequence[Any] = ()
    ) -> None:
        super().__init__(what, where=where, expected=expected)
        self.problems = tuple(problems)
        """Each thing that is wrong (`bloomery.config.section.Problem`), where values are and not the file."""


class InputError(BloomeryError):
    """Input data are missing, damaged or of the wrong kind."""


class CheckFailedError(BloomeryError):
    """A promise that the software makes about its own output does not hold."""


class ResourceError(BloomeryError):
    """The machine lacks something: disk, permission, memory, a program."""


class TryAgainError(BloomeryError):
    """A passing fault (network, a lock held by another process): the same call may work later."""

    exit_code = 75
