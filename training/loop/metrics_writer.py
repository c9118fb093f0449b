"""Write metrics.jsonl, the truth, and render main_log.txt and TensorBoard from its records. Rank 0 only."""

from __future__ import annotations

import contextlib
import os
import time
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

_SHOW_EVERY_SECONDS = 5.0


def _append(path: Path) -> IO[str]:
    """Open for appending after cutting an unfinished last line that a killed writer left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        cut_unfinished_line(path)
    return path.open("a", encoding="utf-8")


class MetricsWriter:
    """Appends records; a line is on disk before the next iteration begins."""

    def __init__(self, folder: Path, *, iteration: int, consumed_samples: int, consumed_tokens: int) -> None:
        """Go on writing in `folder`; the counts say where the training stands.

        Raises:
            ResourceError: the files cannot be written.
        """
        self._folder = folder
        with explained(folder):
            self._metrics = _append(folder / "metrics.jsonl")
            self._log = _append(folder / "main_log.txt")
            self._board = open_tensorboard(folder / "tensorboard", iteration, consumed_samples, consumed_tokens)
        self._shown = 0.0

    def step(self, record: MetricsRecord) -> None:
        """One iteration."""
        line = render(record)
        self._record(record, [line])
        if time.monotonic() - self._shown > _SHOW_EVERY_SECONDS or record.iteration in (1, record.total_iterations):
            self._shown = time.monotonic()
            say(line)

    def validation(self, record: ValidationRecord) -> None:
        """One validation."""
        self._record(record, render_validation(record))
        mean = format_finite(record.validation_mean, ".4f")
        say(f" validation after iteration {record.iteration}: mean loss {mean} over {len(record.validation)} sets")

    def event(self, record: EventRecord) -> None:
        """What a guard saw and did; also said."""
        line = render_event(record)
        self._record(record, [line])
        say(line)

    def energy(self, record: EnergyRecord) -> None:
        """Energy of the segment so far."""
        self._record(record, [render_energy(record)])

    def note(self, text: str) -> None:
        """A line of talk, in the log and on the terminal; the curves up to here are put on disk."""
        self._line(self._log, f"[{utc_now()}] {text}")
        if self._board is not None:
            with explained(self._folder):
                self._board.flush()
        say(text)

    def _record(self, record: Record, lines: list[str]) -> None:
        self._line(self._metrics, dump_record(record))
        if lines:
            self._line(self._log, "\n".join(lines))
        if self._board is not None:
            # Its thread tells here what went wrong with what was given to it before.
            with explained(self._folder):
                self._board.add(record)

    def _line(self, handle: IO[str], text: str) -> None:
        with explained(Path(handle.name)):
            handle.write(text + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def close(self) -> None:
        """End. Every line is on disk already; what still fails here must not hide an error that ends the training."""
        for file in (self._board, self._metrics, self._log):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
