"""Write the output of each rank to its own file, train/logs/ranks/<rank>.log.

The file replaces the process's stdout and stderr, so that it also contains the output of C libraries, such as an abort
or the stack of a segmentation fault. Output of Python code still goes to the terminal too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bloomery.base.atomic import explained
from bloomery.base.times import utc_now
from bloomery.base.units import format_bytes

if TYPE_CHECKING:
    from training.parallel.mesh import Mesh


class _Both(io.TextIOBase):
    """Text stream that writes to the rank's file and to the original stream."""

    def __init__(self, file: TextIO, before: TextIO) -> None:
        self._file, self._before = file, before

    def write(self, text: str) -> int:
        self._file.write(text)
        # A closed terminal or pipe must not stop the training.
        with contextlib.suppress(OSError):
            self._before.write(text)
        return len(text)

    def flush(self) -> None:
        self._file.flush()
        with contextlib.suppress(OSError):
            self._before.flush()

    def isatty(self) -> bool:
        return self._before.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the rank's file, so that C libraries write to the file directly."""
        return self._file.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class RankLog:
    """Log file of this rank, for messages that concern this rank only."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self.path = file, path

    def note(self, text: str) -> None:
        """Write a line to the file only, not to the terminal."""
        self._file.write(f"[{utc_now()}] {text}\n")

    def note_place(self, mesh: Mesh) -> None:
        """Write the rank's coordinates in the mesh and its device."""
        self.note(
            f"tensor rank {mesh.tensor_rank}, pipeline rank {mesh.pipeline_rank}, data rank {mesh.data_rank} of "
            f"{mesh.parallel.tensor} x {mesh.parallel.pipeline} x {mesh.parallel.data} ranks, on {mesh.device}"
        )

    def note_memory(self) -> None:
        """Write the process's peak memory."""
        import torch

        from training.loop.peak_memory import peak_main_memory_bytes

        said = f"{format_bytes(peak_main_memory_bytes())} of main memory"
        if torch.cuda.is_available():
            said += f" and {format_bytes(torch.cuda.max_memory_allocated())} of GPU memory"
        self.note(f"peak memory: at most {said}")


def open_rank_log(folder: Path, rank: int, segment: int) -> RankLog:
    """Send the output of this process to `folder`/ranks/<rank>.log until the process ends.

    Args:
        folder: folder of the training's logs.
        rank: rank of this process.
        segment: number of the segment that the process runs.

    Raises:
        ResourceError: the file cannot be written.
    """
    path = folder / "ranks" / f"{rank}.log"
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number, stream in ((1, "stdout"), (2, "stderr")):
        before = os.fdopen(os.dup(number), "w", buffering=1, encoding="utf-8", errors="replace")
        getattr(sys, stream).flush()
        os.dup2(descriptor, number)
        file = os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        setattr(sys, stream, _Both(file, before))
    os.close(descriptor)
    faulthandler.enable(file=2)
    log = RankLog(file, path)
    log.note(f"rank {rank}, process {os.getpid()} on {os.uname().nodename}, segment {segment}")
    return log
