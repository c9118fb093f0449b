"""Look at a run repeatedly, in a thread of the watcher or in the process itself."""

from __future__ import annotations

import threading
import time
import traceback

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.base.written_values import as_written
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.facts import read_settings
from monitoring.alerts.look import Looked, look_once
from monitoring.training_progress import epoch_now


class LookLoop:
    """Looks at a run at fixed intervals, until `stop` is called."""

    def __init__(self, paths: RunPaths, *, of_workflow: bool = False) -> None:
        """Prepare the loop. `of_workflow` states whether a workflow started this watcher."""
        self._paths, self._of_workflow = paths, of_workflow
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.finished = threading.Event()
        """Set when a look finds that the run has finished."""

    def start(self) -> None:
        """Look repeatedly in a thread of this process."""
        self._thread = threading.Thread(target=self.run, name="look-loop", daemon=True)
        self._thread.start()

    def stop(self, longest_seconds: float) -> None:
        """End the thread, and wait for its current look at most `longest_seconds`."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(longest_seconds)

    def run(self) -> None:
        """Look repeatedly until `stop` is called."""
        while not self._stop.is_set():
            began = time.monotonic()
            self.look()
            self._stop.wait(max(0.0, self.every_seconds() - (time.monotonic() - began)))

    def look(self) -> Looked | None:
        """Look once. Return None if the look failed; the failure is only reported, and the next look tries again."""
        try:
            looked = look_once(self._paths, epoch_now(), of_workflow=self._of_workflow)
        except TryAgainError:
            return None  # Another watcher looks at the run now, or the file server does not respond.
        except BloomeryError as error:
            say(f"{utc_now()} a look failed: {error}")
        except Exception:
            # An error in one look must not end a watcher that runs for weeks.
            say(f"{utc_now()} a look failed:\n{as_written(traceback.format_exc())}")
        else:
            if looked.finished:
                self.finished.set()
            return looked
        return None

    def every_seconds(self) -> float:
        """Return the time between two looks, from the run's configuration."""
        try:
            return read_settings(self._paths).alerts.every_seconds
        except BloomeryError:
            return AlertsConfig().every_seconds
