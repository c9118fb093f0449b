"""Sync a run every few minutes, in a separate process, until the training has ended.

Each sync is a subprocess. If a sync hangs, crashes or runs out of memory, the loop continues. Each sync also reads the
access token again, because it may have been renewed. Nothing here affects the training.
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
"""Longest time from a request to stop until the loop ends. The workflow waits longer
(`bloomery.orchestration.watcher`)."""
_PATIENCE_SECONDS = 30.0
"""How long syncs retry after a request to stop."""
_LITTLE_PATIENCE_SECONDS = 5.0
"""How long syncs retry after a request to stop if the previous sync failed. The user should not wait for a failing Hub,
because the next workflow syncs again."""
_POLL_SECONDS = 0.2


class SyncLoop:
    """Repeated syncs of one run, until its training has ended or a signal requests a stop."""

    def __init__(
        self,
        paths: RunPaths,
        every_seconds: float | None,
        *,
        until_stopped: bool = False,
        retry_seconds: float = 60.0,
        longest_seconds: float = 1800.0,
    ) -> None:
        """Prepare the loop.

        Args:
            paths: the paths of the run.
            every_seconds: time from the start of one sync to the start of the next; None for the time in the run's
                configuration.
            until_stopped: whether to continue after the training has ended.
            retry_seconds: how long one sync retries while the Hub is unavailable; the next sync tries again anyway.
            longest_seconds: a sync that takes longer is considered to hang and is killed.
        """
        self._paths = paths
        self._every_seconds = every_seconds
        self._until_stopped = until_stopped
        self._retry_seconds, self._longest_seconds = retry_seconds, longest_seconds
        self._stop = threading.Event()
        self._stopped_at = 0.0

    def run(self) -> None:
        """Sync repeatedly. Raises InputError if the run has no configuration."""
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
                    say(f"{utc_now()} asked to stop: the logs are pushed one last time")
                    self._sync(self._patience_seconds(), self._stopped_at + _LONGEST_END_SECONDS - time.monotonic())
                    return
        finally:
            for caught, handler in previous.items():
                signal.signal(caught, handler)

    def complete(self) -> bool:
        """Return whether the last sync began after the end of the training and succeeded."""
        state = read_state(self._paths)
        return state.finished and state.failures == 0

    def _patience_seconds(self) -> float:
        return _LITTLE_PATIENCE_SECONDS if read_state(self._paths).failures else _PATIENCE_SECONDS

    def _pause_seconds(self) -> float:
        if self._every_seconds is not None:
            return self._every_seconds
        try:
            return 60.0 * read_publish_stage(self._paths).publish.sync_minutes
        except BloomeryError:
            # config/publish.json was valid when the loop began. Now it is being written, or another version of Bloomery
            # wrote it.
            return 300.0

    def _sync(self, retry_seconds: float, longest_seconds: float) -> None:
        """Run one sync. A failure is reported and recorded, and the next sync tries again."""
        failures = read_state(self._paths).failures
        command = [sys.executable, "-m", "bloomery.cli", "sync", "--run", str(self._paths.run)]
        # In a session of its own, the sync does not receive a Ctrl-C. PARENT_VARIABLE makes it end when this process
        # ends.
        process = subprocess.Popen(
            [*command, "--retry-seconds", f"{retry_seconds:g}"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {PARENT_VARIABLE: str(os.getpid())},
        )
        code = self._wait(process, longest_seconds)
        if code in (0, TryAgainError.exit_code):
            return
        # `bloomery sync` records its own errors in the state, but not a crash or a hang.
        if read_state(self._paths).failures == failures:
            reason = "after a request to stop" if self._stop.is_set() else f"after {longest_seconds:.0f} s"
            error = f"a sync was killed {reason}" if code is None else f"a sync ended with exit code {code}"
            say(f"{utc_now()} {error}")
            try:
                with explained(self._paths.run):
                    write_sync(self._paths.sync_state, failing(read_state(self._paths), error))
            except BloomeryError as problem:
                say(f"error: {problem}")

    def _wait(self, process: subprocess.Popen[bytes], longest_seconds: float) -> int | None:
        """Return the exit code; None if the process took too long and was killed."""
        deadline = time.monotonic() + longest_seconds
        asked_before = self._stop.is_set()
        while True:
            try:
                return process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if self._stop.is_set() and not asked_before:
                    # Leave some of the remaining time for the last sync.
                    asked_before = True
                    deadline = min(deadline, self._stopped_at + self._patience_seconds())
                if time.monotonic() > deadline:
                    process.kill()
                    process.wait()
                    return None
