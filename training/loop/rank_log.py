"""train/logs/ranks/<rank>.log: what each rank says, apart from the others.

The file takes the place of the process's own stdout and stderr, so that the last words of a library in C (an abort, a
segmentation fault with its stacks) are in it too; Python's text goes to the terminal as before as well.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bloomery.base.atomic import explained
from bloomery.base.times import utc_now
from bloomery.base.units import format_bytes

if TYPE_CHECKING:
    from training.parallel.mesh import Mesh


class _Both(io.TextIOBase):
    """Writes to the rank's file and to where the stream went before."""

    def __init__(self, file: TextIO, before: TextIO) -> None:
        self._file, self._before = file, before

    def write(self, text: str) -> int:
        self._file.write(text)
        # A terminal or a pipe that is gone is no reason to stop training.
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
        """The file's: what is given to a C library must not depend on a thread of ours."""
        return self._file.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class RankLog:
    """The file of this rank, for lines that are nobody else's matter."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self.path = file, path

    def note(self, text: str) -> None:
        """A line in the file alone."""
        self._file.write(f"[{utc_now()}] {text}\n")

    def note_place(self, mesh: Mesh) -> None:
        """Where the rank stands."""
        self.note(
            f"tensor {mesh.tensor_rank}, pipeline {mesh.pipeline_rank}, data {mesh.data_rank} of "
            f"{mesh.parallel.tensor} x {mesh.parallel.pipeline} x {mesh.parallel.data}, on {mesh.device}"
        )

    def note_memory(self) -> None:
        """The most memory that the process has had so far."""
        import torch

        # Linux counts it in KiB.
        said = f"{format_bytes(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)} of main memory"
        if torch.cuda.is_available():
            said += f", {format_bytes(torch.cuda.max_memory_allocated())} of the GPU's"
        self.note(f"at most {said}")


def open_rank_log(folder: Path, rank: int, segment: int) -> RankLog:
    """Send what this process says to `folder`/ranks/<rank>.log too, from now to its end.

    Args:
        folder: of the training's logs.
        rank: of this process.
        segment: that it begins to run.

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
