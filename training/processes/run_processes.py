"""Run the processes of a segment to their end, show their progress, and pass on a request to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO

from bloomery.base.atomic import write_text
from bloomery.base.log_file import lines_shown_by
from bloomery.base.progress import say
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, FirstFailure
from training.guards.incident_texts import IncidentTexts
from training.loop.die_with_parent import die_with_parent
from training.processes.end_of_ranks import first_failure
from training.processes.end_processes import end_processes
from training.processes.show_progress import TrainingProgressBar
from training.processes.watch_ranks import RankWatch, ReportedHang

BY_SIGNAL = "signal\n"
"""Content of the stop file if the launcher wrote the file because of a signal. A person's stop file differs."""
_LOOK_EVERY_SECONDS = 1.0
_TEXTS_SECONDS = 60.0
"""Maximum time to fetch the texts of incidents after the processes have ended."""
_LAST_LINES_SECONDS = 10.0
"""Maximum time to read the last lines after the processes have ended. A child process may keep the pipe open."""


@dataclass(frozen=True)
class ProcessesEnd:
    """How the processes of a segment ended."""

    code: int
    """Exit code of the command."""
    hang: ReportedHang | None = None
    """The hang because of which the launcher ended the processes. None if they ended otherwise."""
    first_failure: FirstFailure | None = None
    """The rank that failed first. None if no rank failed, or if it is not known."""


def run_processes(
    command: Sequence[str],
    environment: Mapping[str, str],
    paths: RunPaths,
    watch: RankWatch | None = None,
    failure: Callable[[], str | None] | None = None,
) -> ProcessesEnd:
    """Run `command` to its end and return how it ended. On SIGTERM or SIGINT, write the stop file.

    `watch` ends the processes if they hang. They are also ended as soon as `failure` returns a reason why they cannot
    continue.

    The output of the processes appears on stderr. A progress bar shows the newest iteration in the run's metrics.
    """
    asked = False
    bar = TrainingProgressBar(paths.logs / "metrics.jsonl")

    def show(line: str) -> None:
        # After a Ctrl-C on a terminal, a person needs only the last message. The log receives all lines.
        if not (asked and bar.on_terminal):
            bar.show(line)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            say("asked to stop: a checkpoint is saved after the current iteration")
            asked = True
        stop = paths.control / STOP_FILE
        if not stop.exists():
            # A person's stop file stays, because it makes the end of the segment a person's stop.
            write_text(stop, BY_SIGNAL)

    previous = {caught: signal.signal(caught, ask_to_stop) for caught in (signal.SIGTERM, signal.SIGINT)}
    try:
        with bar, lines_shown_by(show):
            # In a new session, the processes do not receive a Ctrl-C from the terminal. The launcher asks them to stop.
            process = subprocess.Popen(
                command,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
            assert process.stdout is not None
            lines = threading.Thread(target=_pass_on, args=(process.stdout,), daemon=True)
            lines.start()
            texts, hang = IncidentTexts(paths), None
            while True:
                try:
                    code = process.wait(_LOOK_EVERY_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    bar.update()
                    texts.look()
                    if watch is not None and hang is None:
                        hang = watch.look(process)
                    if failure is not None and failure() is not None:
                        end_processes(process)
            lines.join(_LAST_LINES_SECONDS)
            # After a stop request somebody waits for the launcher to end, so fetch no further texts.
            texts.finish(0.0 if asked else _TEXTS_SECONDS)
            failed = first_failure(paths.heartbeats) if hang is None else hang.first_failure
            return ProcessesEnd(code, hang, failed)
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)


def _pass_on(output: IO[str]) -> None:
    """Print each line of `output` to this process's stderr."""
    for line in output:
        sys.stderr.write(line)
