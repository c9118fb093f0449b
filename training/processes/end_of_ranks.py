"""Record how the ranks of a node ended, find the rank that failed first, and end the ranks of a node on request.

`training.processes.torchrun` runs on each node and uses this file for its ranks. The launcher of the segment reads the
records of all nodes. The request to end is a file, because the launcher's signals reach only processes of its own node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError
from bloomery.config.section import Count
from bloomery.contracts.heartbeat import LAUNCH_VARIABLE, end_request
from bloomery.contracts.segment import FirstFailure
from training.processes.end_processes import kill_children

_LOOK_SECONDS = 0.1
_REQUEST_EVERY_LOOKS = 10
_SAME_SECONDS = 1.0
"""Ranks that fail within this time after the first one may have lost their connection to another failed rank."""
_PREFIX = "failed-"


class RankFailure(BaseModel):
    """How a rank of a node failed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Count
    host: str
    exit_code: int
    """Exit code, or the negative number of the signal that ended the rank."""
    at: Annotated[float, Field(ge=0)]
    """Time at which the rank ended, in seconds of the Unix epoch of its host."""


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

    A rank that SIGTERM ended was ended by torchrun because of another rank. Among failures within a second, a rank that
    another signal ended comes first. The others usually failed because they lost their connection to it.
    """
    found: list[RankFailure] = []
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        with contextlib.suppress(BloomeryError, ValidationError):
            found += _RECORD.validate_python(read_json(path))
    if not found:
        return None
    found = [each for each in found if each.exit_code != -signal.SIGTERM] or found
    earliest = min(each.at for each in found)
    together = [each for each in found if each.at <= earliest + _SAME_SECONDS]
    first = min(together, key=lambda each: (each.exit_code >= 0, each.at, each.rank))
    return FirstFailure(rank=first.rank, host=first.host, ending=end_text(first.exit_code))


class NodeRanks:
    """The child processes of this process, which are the ranks of a node.

    A thread notes when they end, and records at once the ranks that failed. torchrun reports failed ranks only after it
    has ended the others, and srun may kill torchrun before that, because a rank of another node has failed too. The
    thread also kills all ranks when the launcher asks for this.
    """

    def __init__(self, folder: Path) -> None:
        """Start the thread. `folder` is the folder of heartbeats."""
        self._folder = folder
        self._request = end_request(folder, os.environ.get(LAUNCH_VARIABLE, ""))
        self._alive: dict[int, int | None] = {}
        """Rank of each running child process; None if it is not known yet."""
        self._ended: dict[int, float] = {}
        threading.Thread(target=self._run, name="node", daemon=True).start()

    def ended_at(self, process: int) -> float:
        """Return the time at which a child process ended, in seconds of the Unix epoch. If unknown, return now."""
        return self._ended.get(process, time.time())

    def _run(self) -> None:
        looks = 0
        while True:
            self._note_ends()
            if looks % _REQUEST_EVERY_LOOKS == 0 and self._request.exists():
                kill_children(os.getpid())
                return
            looks += 1
            time.sleep(_LOOK_SECONDS)

    def _note_ends(self) -> None:
        now, running = time.time(), _running_children()
        for process in self._alive.keys() - running:
            self._ended[process] = now
            rank, code = self._alive[process], _exit_code(process)
            # torchrun sends SIGTERM to ranks because of another rank.
            if rank is not None and code not in (None, 0, -signal.SIGTERM):
                write_failures(self._folder, [RankFailure(rank=rank, host=os.uname().nodename, exit_code=code, at=now)])
        self._alive = {process: self._rank(process) for process in running}

    def _rank(self, process: int) -> int | None:
        known = self._alive.get(process)
        return _rank_of(process) if known is None else known


def _running_children() -> set[int]:
    """Return the numbers of this process's children that have not ended yet. An ended child may wait for its parent."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(number) for number in path.read_text().split()}
    return {process for process in found if not _has_ended(process)}


def _has_ended(process: int) -> bool:
    """Whether a process has ended. It may still wait for its parent to read its exit code."""
    fields = _state_fields(process)
    return not fields or fields[0] in "ZX"


def _exit_code(process: int) -> int | None:
    """Return the exit code of an ended process, or the negative number of the signal that ended it.

    Return None if the parent of the process has read the code already.
    """
    fields = _state_fields(process)
    # The code is the last field, number 52. The state is number 3.
    return os.waitstatus_to_exitcode(int(fields[49])) if len(fields) > 49 and fields[0] == "Z" else None


def _state_fields(process: int) -> list[str]:
    """Return the fields of /proc/<process>/stat that follow the name in parentheses. The first one is the state."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _rank_of(process: int) -> int | None:
    """Return the rank that torchrun has given a process in its environment. Return None for other processes."""
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [variable.removeprefix(b"RANK=") for variable in variables if variable.startswith(b"RANK=")]
    return int(found[0]) if found and found[0].isdigit() else None
