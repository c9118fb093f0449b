"""Handle SIGTERM and SIGINT so that a command ends in an orderly way, instead of being killed."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from bloomery.base.errors import TryAgainError


class StopSignals:
    """While this context is open, SIGTERM and SIGINT set `asked`.

    While a segment runs, `training.processes.run_processes` handles these signals instead.
    """

    def __init__(self, *, raise_error: bool) -> None:
        """Create the context. If `raise_error` is true, the first signal also raises TryAgainError in the main thread.

        Otherwise the code in the context must poll `asked`.
        """
        self.asked = False
        self.raise_error = raise_error
        self._previous: dict[signal.Signals, Any] = {}

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self.raise_error:
            self.raise_error = False
            raise TryAgainError(
                "the training was asked to stop between two segments",
                expected="run the same command again to resume",
            )

    def __enter__(self) -> Self:
        for caught in (signal.SIGTERM, signal.SIGINT):
            self._previous[caught] = signal.signal(caught, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for caught, handler in self._previous.items():
            signal.signal(caught, handler)
