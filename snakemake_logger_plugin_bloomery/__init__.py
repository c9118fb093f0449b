"""Snakemake's logger plugin `bloomery` (`--logger bloomery`; the profiles in workflow/profiles choose it).

Snakemake finds plugins by the name of their top-level package, so this package is outside of `bloomery`.
`bloomery.orchestration.workflow_log` composes the lines that this plugin prints.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading

from snakemake_interface_logger_plugins.base import LogHandlerBase

from bloomery.base.progress import has_terminal
from bloomery.base.written_values import as_written
from bloomery.orchestration.workflow_log import WorkflowLog

_LOOK_EVERY_SECONDS = 1.0


class LogHandler(LogHandlerBase):  # type: ignore[misc]
    """Writes a line for each finished job, and lines about long and failed jobs.

    A dry-run and `--verbose` print what Snakemake itself would print.
    """

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._plain = settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds
        stream = sys.stdout if settings.stdout else sys.stderr
        colour = stream.isatty() and not settings.nocolor and not os.environ.get("NO_COLOR")
        self._log = WorkflowLog(self._write, colour=colour and os.environ.get("TERM") != "dumb")
        self._stream = stream
        # Erase the terminal's last line, where a training may show its progress bar. The training draws the bar again.
        self._clear = "\r\033[2K" if has_terminal(stream) else ""
        self._ended = threading.Event()
        if not self._plain:
            threading.Thread(target=self._watch, daemon=True).start()

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(f"{self._clear}{as_written(line)}", file=self._stream, flush=True)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_SECONDS):
            self._log.report_long_jobs()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the lines of one record."""
        try:
            if self._plain:
                text = self.format(record)
                if text and text != "None":
                    self._write(text)
            else:
                self._log.add(record.__dict__)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """End the thread that watches long jobs."""
        self._ended.set()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Whether this handler replaces Snakemake's own output."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Whether this handler writes a file. Snakemake still writes its own log file."""
        return False

    @property
    def has_filter(self) -> bool:
        """Whether this handler has its own filter. Snakemake's filter for `quiet` is used instead."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Whether this handler has its own formatter. Snakemake's formatter is used for dry-runs."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Whether this handler needs the graph of rules."""
        return False
