"""Write metrics.jsonl, the truth, and render main_log.txt and TensorBoard from its records. Rank 0 only."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

from bloomery.base.atomic import explained
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.contracts.logline import render, render_validation
from bloomery.contracts.record import MetricsRecord, Record, ValidationRecord

_SHOW_EVERY_SECONDS = 5.0


def _append(path: Path) -> IO[str]:
    """Open for appending after cutting an unfinished last line that a killed writer left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with path.open("r+b") as handle:
                handle.truncate(whole)
    return path.open("a", encoding="utf-8")


class MetricsWriter:
    """Appends records; a line is on disk before the next iteration begins."""

    def __init__(self, folder: Path, first_iteration: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._metrics = _append(folder / "metrics.jsonl")
        self._log = _append(folder / "main_log.txt")
        # What a killed segment wrote beyond its last checkpoint is purged: those steps are run again.
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=first_iteration)
        self._shown = 0.0

    def _line(self, handle: IO[str], text: str) -> None:
        with explained(Path(handle.name)):
            handle.write(text + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def step(self, record: MetricsRecord) -> None:
        """One iteration."""
        self._line(self._metrics, record.model_dump_json(exclude_none=True))
        line = render(record)
        self._line(self._log, line)
        if time.monotonic() - self._shown > _SHOW_EVERY_SECONDS or record.iteration in (1, record.total_iterations):
            self._shown = time.monotonic()
            say(line)
        self._scalars(
            record,
            {
                "lm-loss-training/lm loss": record.loss,
                "grad-norm/grad-norm": record.grad_norm,
                "learning-rate/learning-rate": record.learning_rate,
                "batch-size/batch-size": record.global_batch_size,
                "throughput/tokens per second": record.tokens_per_second,
                "throughput/TFLOPs (hardware)": record.tflops_hardware,
            },
        )

    def validation(self, record: ValidationRecord) -> None:
        """One validation."""
        self._line(self._metrics, record.model_dump_json())
        for line in render_validation(record):
            self._line(self._log, line)
        say(
            f" validation after iteration {record.iteration}: mean loss {record.validation_mean:.4f} over "
            f"{len(record.validation)} sets"
        )
        scalars = {f"lm-loss-validation/{name}": loss for name, loss in record.validation.items()}
        self._scalars(record, scalars | {"lm-loss-validation/mean": record.validation_mean})

    def note(self, text: str) -> None:
        """A line of talk, in the log and on the terminal."""
        self._line(self._log, f"[{utc_now()}] {text}")
        say(text)

    def _scalars(self, record: Record, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._board.add_scalar(name, value, record.iteration)
        samples = {name: value for name, value in values.items() if name.startswith("lm-loss")}
        for name, value in samples.items():
            self._board.add_scalar(f"{name} vs samples", value, record.consumed_samples)

    def close(self) -> None:
        """Flush everything."""
        self._board.close()
        self._metrics.close()
        self._log.close()
