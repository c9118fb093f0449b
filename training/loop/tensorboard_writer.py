"""Write TensorBoard files from the records, with the same groups of curves as BigScience. Each curve is drawn over
steps, samples and tokens.

Each axis has its own folder, which TensorBoard shows as a run (`.`, `vs-samples`, `vs-tokens`). A resumed training
purges records beyond the resumed position, which a killed segment wrote after its last checkpoint. The axes need
separate folders, because TensorBoard purges all curves of a folder from the same step number. Each record becomes one
event per axis with all values, which needs fewer bytes and less time than one event per value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.progress import say
from bloomery.contracts.curves import AXES, Axis, scalars
from bloomery.contracts.metrics_record import Record


class TensorBoardWriter:
    """Writer of a training's event files."""

    def __init__(self, folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int) -> None:
        """Open the files in `folder`, and purge records beyond the resumed position.

        Args:
            folder: folder of the event files.
            iteration: iteration after which the training resumes.
            consumed_samples: consumed samples at that iteration.
            consumed_tokens: consumed tokens at that iteration.

        Raises:
            ImportError: tensorboard is not installed.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard import SummaryWriter

        self._summary = Summary
        stands = {"iteration": iteration, "consumed_samples": consumed_samples, "consumed_tokens": consumed_tokens}
        self._writers: list[tuple[Axis, Any]] = [
            (axis, SummaryWriter(str(folder / axis.folder), purge_step=stands[axis.field] + 1)) for axis in AXES
        ]

    def add(self, record: Record) -> None:
        """Add the values of a record to the curves."""
        values = scalars(record)
        if not values:
            return
        for axis, writer in self._writers:
            named = [self._summary.Value(tag=name + axis.suffix, simple_value=v) for name, v in values.items()]
            writer.file_writer.add_summary(self._summary(value=named), getattr(record, axis.field))

    def flush(self) -> None:
        """Write pending events to disk."""
        for _, writer in self._writers:
            writer.flush()

    def close(self) -> None:
        """Write pending events to disk and close the files."""
        for _, writer in self._writers:
            writer.close()


def open_tensorboard(
    folder: Path, iteration: int, consumed_samples: int, consumed_tokens: int
) -> TensorBoardWriter | None:
    """Open TensorBoard files in `folder`. If tensorboard is not installed, print a message and return None."""
    try:
        return TensorBoardWriter(folder, iteration, consumed_samples, consumed_tokens)
    except ImportError as error:
        say(f"no TensorBoard files are written ({error}); train/logs/metrics.jsonl contains all values")
        return None
