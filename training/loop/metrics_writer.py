"""Write records to metrics.jsonl, and render main_log.txt and TensorBoard files from them. Runs on rank 0 only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

from bloomery.base.atomic import explained
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.base.unfinished_line import cut_unfinished_line
from bloomery.base.units import format_finite
from bloomery.contracts.logline import render, render_energy, render_event, render_validation
from bloomery.contracts.metrics_record import (
    EnergyRecord,
    EventRecord,
    MetricsRecord,
    Record,
    ValidationRecord,
    dump_record,
)
from training.loop.tensorboard_writer import open_tensorboard


def _append(path: Path) -> IO[str]:
    """Open a file for appending. First remove an unfinished last line, which a killed writer may have left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        cut_unfinished_line(path)
    return path.open("a", encoding="utf-8")


class MetricsWriter:
    """Append records. Each line is on disk before the next iteration begins."""

    def __init__(self, folder: Path, *, iteration: int, consumed_samples: int, consumed_tokens: int) -> None:
        """Open the files in `folder` for appending. The training resumes at the given counts.

        Raises:
            ResourceError: the files cannot be written.
        """
        self._folder = folder
        with explained(folder):
            self._metrics = _append(folder / "metrics.jsonl")
            self._log = _append(folder / "main_log.txt")
            self._board = open_tensorboard(folder / "tensorboard", iteration, consumed_samples, consumed_tokens)

    def step(self, record: MetricsRecord) -> None:
        """Record an iteration. `training.processes.show_progress` shows it to a person."""
        self._record(record, [render(record)])

    def validation(self, record: ValidationRecord) -> None:
        """Record a validation, and print its mean loss."""
        self._record(record, render_validation(record))
        mean = format_finite(record.validation_mean, ".4f")
        say(
            f" validation after iteration {record.iteration}: mean loss {mean} over "
            f"{len(record.validation)} validation sets"
        )

    def event(self, record: EventRecord) -> None:
        """Record and print an event of a guard or a resume."""
        line = render_event(record)
        self._record(record, [line])
        say(line)

    def energy(self, record: EnergyRecord) -> None:
        """Record the energy of the segment so far."""
        self._record(record, [render_energy(record)])

    def note(self, text: str) -> None:
        """Write a message to the log and to the terminal, and flush the TensorBoard files."""
        self._line(self._log, f"[{utc_now()}] {text}")
        if self._board is not None:
            with explained(self._folder):
                self._board.flush()
        say(text)

    def _record(self, record: Record, lines: list[str]) -> None:
        """Append a record to metrics.jsonl, its rendered lines to main_log.txt, and its values to TensorBoard."""
        self._line(self._metrics, dump_record(record))
        if lines:
            self._line(self._log, "\n".join(lines))
        if self._board is not None:
            # `add` raises the errors that TensorBoard's thread had with earlier records.
            with explained(self._folder):
                self._board.add(record)

    def _line(self, handle: IO[str], text: str) -> None:
        """Append a line and sync the file to disk."""
        with explained(Path(handle.name)):
            handle.write(text + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def close(self) -> None:
        """Close the files. All lines are on disk already.

        I/O errors are ignored, so that they do not hide an error that ended the training.
        """
        for file in (self._board, self._metrics, self._log):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
