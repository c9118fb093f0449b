"""Push the logs to the Hub while a workflow runs: a process beside the workflow syncs every few minutes.

The process is a child of the workflow's main process and runs on the login node, because compute nodes often have no
Internet and jobs do not get the token. When the workflow ends, in whatever way (`bloomery.base.follow_parent`), the
process makes one last sync and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bloomery.base.follow_parent import PARENT_VARIABLE
from bloomery.base.hub_access import why_local
from bloomery.base.progress import say

_LAST_SYNC_SECONDS = 120.0
_SILENT_SECONDS = 2.0


class SyncProcess:
    """The process that pushes the logs of one run to the Hub."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    def start(cls, run: Path, *, hub: bool) -> SyncProcess | None:
        """Start the process; return None if no Hub is configured or the process cannot start.

        An error is only reported, because problems with logs must not stop a workflow. The rule `sync_logs` makes the
        final sync. `hub` is the configuration's `publish.hub`.
        """
        if why_local(hub=hub) is not None:
            return None
        log = run / "logs" / "watch.log"
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as handle:
                process = subprocess.Popen(
                    [sys.executable, "-m", "bloomery.cli", "watch", "--run", str(run), "--until-stopped"],
                    stdin=subprocess.DEVNULL,
                    stdout=handle,
                    stderr=subprocess.STDOUT,
                    # A Ctrl-C in the terminal must reach only the workflow, which then calls `stop`.
                    start_new_session=True,
                    env=os.environ | {PARENT_VARIABLE: str(os.getpid())},
                )
        except OSError as error:
            say(
                f"the process that pushes the logs to the Hub cannot start: {error}; the logs are pushed only "
                "after the training"
            )
            return None
        return cls(process, log)

    def stop(self, longest_seconds: float = _LAST_SYNC_SECONDS) -> None:
        """Request a last sync from the process and wait until it ends; kill the process after `longest_seconds`."""
        if self._process.poll():
            say(
                "the logs were not pushed to the Hub while the workflow ran, because the process that pushes them "
                f"failed; {self._log} contains its error"
            )
            return
        self._process.terminate()
        began = time.monotonic()
        try:
            self._process.wait(_SILENT_SECONDS)
        except subprocess.TimeoutExpired:
            say(
                f"waiting at most {longest_seconds:.0f} s until the newest logs are pushed to the Hub (messages are in "
                f"{self._log})"
            )
            try:
                self._process.wait(max(0.0, longest_seconds - (time.monotonic() - began)))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
