"""A sync every few minutes, in a process of its own, until the training has ended.

Each sync is a program of its own too: whatever becomes of it (a hang in a library, a crash, memory), the watch goes
on, and a token that was renewed meanwhile is found. Nothing here touches the training.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

from bloomery.base.atomic import explained
from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.follow_parent import PARENT_VARIABLE
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from monitoring.sync_run import read_publish_stage
from monitoring.sync_state import failing, read_state, write_sync

_LONGEST_END_SECONDS = 110.0
"""From being asked to stop to the end: below what the workflow waits for (`bloomery.orchestration.sync_process`)."""
_PATIENCE_SECONDS = 30.0
_LITTLE_PATIENCE_SECONDS = 5.0
"""With a Hub that was away before: nobody shall wait long at the end for what the next workflow does."""
_POLL_SECONDS = 0.2


class SyncLoop:
    """Syncs of one run, until its training has ended or somebody asks to stop."""

    def __init__(
        self,
        paths: RunPaths,
        every_seconds: float | None,
        *,
        until_stopped: bool = False,
        retry_seconds: float = 60.0,
        longest_seconds: float = 1800.0,
    ) -> None:
        """Prepare to watch a run.

        Args:
            paths: the run.
            every_seconds: from one sync's beginning to the next one's; None: what the run's configuration says.
            until_stopped: go on when the training has ended.
            retry_seconds: how long one sync bears a Hub that is away; the next one tries again anyway.
            longest_seconds: a sync that takes longer hangs, and is ended.
        """
        self._paths = paths
        self._every_seconds = every_seconds
        self._until_stopped = until_stopped
        self._retry_seconds, self._longest_seconds = retry_seconds, longest_seconds
        self._stop = threading.Event()
        self._stopped_at = 0.0

    def run(self) -> None:
        """Sync now and then. Raises InputError when the run has no configuration."""
        read_publish_stage(self._paths)

        def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
            if not self._stop.is_set():
                self._stopped_at = time.monotonic()
                self._stop.set()

        previous = {caught: signal.signal(caught, ask_to_stop) for caught in (signal.SIGTERM, signal.SIGINT)}
        try:
            while True:
                began = time.monotonic()
                self._sync(self._retry_seconds, self._longest_seconds)
                if not self._until_stopped and self.complete():
                    say(f"{utc_now()} the training has ended and its logs are on the Hub")
                    return
                if self._stop.wait(max(0.0, self._pause_seconds() - (time.monotonic() - began))):
                    say(f"{utc_now()} asked to stop: one last sync")
                    self._sync(self._patience_seconds(), self._stopped_at + _LONGEST_END_SECONDS - time.monotonic())
                    return
        finally:
            for caught, handler in previous.items():
                signal.signal(caught, handler)

    def complete(self) -> bool:
        """Whether everything that the training left was synced after its end."""
        state = read_state(self._paths)
        return state.finished and state.failures == 0

    def _patience_seconds(self) -> float:
        return _LITTLE_PATIENCE_SECONDS if read_state(self._paths).failures else _PATIENCE_SECONDS

    def _pause_seconds(self) -> float:
        if self._every_seconds is not None:
            return self._every_seconds
        try:
            return 60.0 * read_publish_stage(self._paths).publish.sync_minutes
        except BloomeryError:  # being written, or from another version: it was fine when the watch began
            return 300.0

    def _sync(self, retry_seconds: float, longest_seconds: float) -> None:
        """One sync; whatever goes wrong is said, recorded, and left to the next one."""
        failures = read_state(self._paths).failures
        command = [sys.executable, "-m", "bloomery.cli", "sync", "--run", str(self._paths.run)]
        # A session of its own: a Ctrl-C in the terminal reaches us alone. It ends when we do.
        process = subprocess.Popen(
            [*command, "--retry-seconds", f"{retry_seconds:g}"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {PARENT_VARIABLE: str(os.getpid())},
        )
        code = self._wait(process, longest_seconds)
        if code in (0, TryAgainError.exit_code):
            return
        # An error of ours is in the state already; a crash or a hang is not.
        if read_state(self._paths).failures == failures:
            reason = "when asked to stop" if self._stop.is_set() else f"after {longest_seconds:.0f} s"
            error = f"a sync was given up {reason}" if code is None else f"a sync ended with code {code}"
            say(f"{utc_now()} {error}")
            try:
                with explained(self._paths.run):
                    write_sync(self._paths.sync_state, failing(read_state(self._paths), error))
            except BloomeryError as problem:
                say(f"error: {problem}")

    def _wait(self, process: subprocess.Popen[bytes], longest_seconds: float) -> int | None:
        """The exit code; None when it took too long and was ended."""
        deadline = time.monotonic() + longest_seconds
        asked_before = self._stop.is_set()
        while True:
            try:
                return process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if self._stop.is_set() and not asked_before:
                    # Not all of the time that is left: the last sync shall have some too.
                    asked_before = True
                    deadline = min(deadline, self._stopped_at + self._patience_seconds())
                if time.monotonic() > deadline:
                    process.kill()
                    process.wait()
                    return None
