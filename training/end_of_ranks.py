"""Record how the ranks of a node ended, find the rank that failed first, and end the ranks of a node on request.

`training.torchrun` runs on each node and uses this file for its ranks. The launcher of the segment reads the records of
all nodes. Files carry the request to end, because signals of the launcher reach only processes of its own node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import psutil
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError
from bloomery.config.section import Count
from bloomery.contracts.heartbeat import LAUNCH_VARIABLE, end_request
from bloomery.contracts.segment import FirstFailure

_LOOK_SECONDS = 1.0
_PREFIX = "failed-"


class RankFailure(BaseModel):
    """How a rank of a node failed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Count
    host: str
    ending: str
    by_signal: bool
    """Whether a signal ended the rank. Ranks that lose their connection to it end with an exit code."""
    at: Annotated[float, Field(ge=0)]
    """Time at which the node noticed the failure, in seconds of the Unix epoch."""


_RECORD = TypeAdapter(list[RankFailure])


def end_text(exit_code: int) -> str:
    """Describe how a process ended, by its exit code, or by a signal if the code is negative."""
    if exit_code >= 0:
        return f"ended with code {exit_code}"
    name = str(-exit_code)
    with contextlib.suppress(ValueError):
        name = signal.Signals(-exit_code).name
    return f"was ended by signal {name}"


def write_failures(folder: Path, failures: list[RankFailure]) -> None:
    """Record the failed ranks of this node. An error of the file system is ignored, so that it hides no other error."""
    name = f"{_PREFIX}{min(failure.rank for failure in failures)}.json"
    with contextlib.suppress(BloomeryError, OSError):
        write_json(folder / name, [failure.model_dump(mode="json") for failure in failures])


def first_failure(folder: Path) -> FirstFailure | None:
    """Return the rank that failed first according to the records of all nodes. Return None if no rank failed.

    Among failures of the same second, a rank that a signal ended comes first. The other ranks of that second usually
    failed because they lost their connection to it.
    """
    found: list[RankFailure] = []
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        with contextlib.suppress(BloomeryError, ValidationError):
            found += _RECORD.validate_python(read_json(path))
    if not found:
        return None
    first = min(found, key=lambda each: (int(each.at), not each.by_signal, each.at, each.rank))
    return FirstFailure(rank=first.rank, host=first.host, ending=first.ending)


def end_ranks_on_request(folder: Path) -> None:
    """Start a thread that kills all child processes of this process when the launcher asks for the end of the ranks."""

    request = end_request(folder, os.environ.get(LAUNCH_VARIABLE, ""))

    def look() -> None:
        while not request.exists():
            time.sleep(_LOOK_SECONDS)
        kill_children(os.getpid())

    threading.Thread(target=look, name="end", daemon=True).start()


def kill_children(process: int) -> None:
    """Kill all descendants of a process. A stopped process is killed too."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
