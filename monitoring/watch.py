"""Watch a run: push its logs to a Hub every few minutes, and look for conditions that need a person."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from bloomery.base.follow_parent import PARENT_VARIABLE
from bloomery.base.hub_access import why_local
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.look_loop import LookLoop
from monitoring.sync_loop import SyncLoop
from monitoring.sync_run import read_publish_stage

_LAST_LOOK_SECONDS = 5.0
_POLL_SECONDS = 0.2


def watch_run(paths: RunPaths, every_seconds: float | None, *, until_stopped: bool, retry_seconds: float) -> None:
    """Watch a run until it has finished, or until a signal asks to stop. Without a Hub, no logs are pushed.

    Args:
        paths: the paths of the run.
        every_seconds: time from the start of one sync to the start of the next; None for the time in the run's
            configuration.
        until_stopped: whether to continue after the run has finished.
        retry_seconds: how long one sync retries while the Hub is unavailable.

    Raises:
        InputError: the run has no configuration.
    """
    reason = why_local(hub=read_publish_stage(paths).publish.hub)
    looks = LookLoop(paths, of_workflow=PARENT_VARIABLE in os.environ)
    looks.start()
    try:
        if reason is None:
            SyncLoop(paths, every_seconds, until_stopped=until_stopped, retry_seconds=retry_seconds).run()
        else:
            say(f"{utc_now()} the logs are not pushed to a Hub, because {reason}")
            _wait(looks, until_stopped=until_stopped)
    finally:
        looks.stop(_LAST_LOOK_SECONDS)
    if not until_stopped:
        # The training may have ended after the newest look.
        looks.look()


def _wait(looks: LookLoop, *, until_stopped: bool) -> None:
    """Wait for the signal TERM or INT and, unless `until_stopped`, for the end of the run."""
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    previous = {caught: signal.signal(caught, ask_to_stop) for caught in (signal.SIGTERM, signal.SIGINT)}
    try:
        while not stop.wait(_POLL_SECONDS):
            if looks.finished.is_set() and not until_stopped:
                say(f"{utc_now()} the run has finished")
                return
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)
