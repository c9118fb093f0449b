"""Keep a watcher running beside a workflow: a process that pushes the logs to the Hub and raises alerts.

The process is a child of the workflow's main process and runs on the login node, because compute nodes often have no
Internet and jobs do not get the token. A thread starts the process again when it ends, whatever the reason. When the
workflow ends, in whatever way (`bloomery.base.follow_parent`), the process makes one last sync and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from bloomery.base.follow_parent import PARENT_VARIABLE
from bloomery.base.progress import say

_LAST_SYNC_SECONDS = 120.0
_SILENT_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 300.0
_HEALTHY_SECONDS = 600.0
"""After a watcher has run for this long, the pause before its next restart is the shortest one again."""


class Watcher:
    """The process that watches one run, and the thread that starts it again."""

    def __init__(self, run: Path, environment: Mapping[str, str], first_pause_seconds: float = 1.0) -> None:
        """Prepare a watcher.

        Args:
            run: folder of the run.
            environment: environment variables of the process. They are kept for restarts, because the workflow removes
                the Hub's token from its own environment.
            first_pause_seconds: time between the first unexpected end of the process and its restart. The time doubles
                with each further end, up to 5 minutes.
        """
        self._run, self.log = run, run / "logs" / "watch.log"
        self._environment = {**environment, PARENT_VARIABLE: str(os.getpid())}
        self._first_pause_seconds = first_pause_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        """Protects `_process`: no process starts after `stop` was called."""
        self._thread = threading.Thread(target=self._supervise, name="watcher", daemon=True)

    @classmethod
    def start(cls, run: Path) -> Watcher:
        """Start a watcher with the environment of this process."""
        watcher = cls(run, dict(os.environ))
        watcher._spawn()
        watcher._thread.start()
        return watcher

    @property
    def pid(self) -> int | None:
        """Id of the newest process; None if no process could be started."""
        return None if self._process is None else self._process.pid

    def stop(self, longest_seconds: float = _LAST_SYNC_SECONDS) -> None:
        """Request a last sync from the process and wait until it ends; kill the process after `longest_seconds`."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is None or process.poll():
            say(f"the run is not watched, because the watcher failed; {self.log} contains its error")
            return
        process.terminate()
        began = time.monotonic()
        try:
            process.wait(_SILENT_SECONDS)
        except subprocess.TimeoutExpired:
            say(
                f"waiting at most {longest_seconds:.0f} s until the watcher has pushed the newest logs and ends "
                f"(messages are in {self.log})"
            )
            try:
                process.wait(max(0.0, longest_seconds - (time.monotonic() - began)))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _supervise(self) -> None:
        """Start the process again whenever it ends, until `stop` is called."""
        pause = self._first_pause_seconds
        while not self._stopping.is_set():
            process, began = self._process, time.monotonic()
            code = process.wait() if process is not None else None
            if self._stopping.is_set():
                return
            if time.monotonic() - began > _HEALTHY_SECONDS:
                pause = self._first_pause_seconds
            how = "could not be started" if code is None else f"ended unexpectedly (exit code {code})"
            say(f"the watcher of the run {how}; it starts again in {pause:.0f} s (messages are in {self.log})")
            if self._stopping.wait(pause):
                return
            pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
            self._spawn()

    def _spawn(self) -> None:
        """Start the process, unless `stop` was called. An error is only reported, because a workflow must not end when
        its watcher cannot start."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._process = None
            try:
                self.log.parent.mkdir(parents=True, exist_ok=True)
                with self.log.open("ab") as handle:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "bloomery.cli", "watch", "--run", str(self._run), "--until-stopped"],
                        stdin=subprocess.DEVNULL,
                        stdout=handle,
                        stderr=subprocess.STDOUT,
                        # A Ctrl-C in the terminal must reach only the workflow, which then calls `stop`.
                        start_new_session=True,
                        env=self._environment,
                    )
            except OSError as error:
                say(f"the watcher of the run cannot start: {error}")
