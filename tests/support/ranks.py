"""Run a function on several gloo ranks without paying the start of Python, torch and DeepSpeed for each of them."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rank_server import Job
from server_process import ServerProcess

_server = ServerProcess(Path(__file__).with_name("rank_server.py"))


class RankError(AssertionError):
    """A rank failed or did not end; the message has its traceback and what it said."""


def run_ranks(function: Callable[..., Any], world: int, *arguments: Any, timeout: float = 120) -> list[Any]:
    """Call `function(*arguments)` on ranks 0 to world - 1, each in a process of its own; their results in that order.

    Each has torchrun's environment (RANK, WORLD_SIZE, MASTER_PORT..), so `build_mesh` finds the others, and one
    thread. Arguments and results travel by pickle. The first rank that fails ends all of them.

    Args:
        function: of the top level of a test file; that file is imported again in each rank.
        world: number of ranks.
        arguments: handed over to each rank.
        timeout: seconds after which the ranks are killed.

    Raises:
        RankError: a rank raised an exception, died, or did not end in time.
    """
    __tracebackhide__ = True
    for_all = {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    connection = _server.connection({**os.environ, **for_all})
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        job = Job(
            file=str(Path(function.__code__.co_filename).resolve()),
            function=function.__qualname__,
            world=world,
            arguments=arguments,
            environment={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
            },
            path=list(sys.path),
            folder=folder,
            timeout=timeout,
        )
        connection.send(job)
        try:
            problem = connection.recv()
        except BaseException:
            # Ctrl-C while it runs: this server is of no more use, and its ranks end with it.
            _server.stop()
            raise
        answers = {rank: _answer(Path(folder) / f"{rank}.pickle") for rank in range(world)}
        if problem is not None:
            logs = [(Path(folder) / f"{rank}.log") for rank in range(world)]
            parts = [f"rank {rank}:\n{answer[1]}" for rank, answer in answers.items() if answer and not answer[0]]
            parts += [f"{log.name}:\n{log.read_text()[-4000:]}" for log in logs if log.exists() and log.stat().st_size]
            raise RankError("\n".join([f"{function.__qualname__} on {world} ranks: {problem}", *parts]))
    results = []
    for answer in answers.values():
        assert answer is not None
        results.append(answer[1])
    return results


def _answer(path: Path) -> tuple[bool, Any] | None:
    if not path.exists():
        return None
    # Written by our own rank a moment ago.
    answer: tuple[bool, Any] = pickle.loads(path.read_bytes())
    return answer


def free_port() -> int:
    """A port of this machine that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
