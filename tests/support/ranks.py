"""Run a function on several gloo ranks without starting Python, torch and DeepSpeed for each rank."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
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
    """A rank failed or did not end. The message has the traceback and the output of the rank."""


def run_ranks(function: Callable[..., Any], world: int, *arguments: Any, timeout: float = 120) -> list[Any]:
    """Call `function(*arguments)` on ranks 0 to world - 1, each in its own process. Return the results in this order.

    Each rank has one thread and torchrun's environment (RANK, WORLD_SIZE, MASTER_PORT..), so `build_mesh` finds the
    other ranks. Arguments and results are pickled. The first rank that fails ends all ranks.

    Args:
        function: a function at the top level of a test file. Each rank imports this file again.
        world: number of ranks.
        arguments: the arguments for each rank.
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
            # After Ctrl-C during a job, the server cannot be used any more. Its ranks end with it.
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
    # Unpickling is safe, because a rank of this job has just written the file.
    answer: tuple[bool, Any] = pickle.loads(path.read_bytes())
    return answer


def free_port() -> int:
    """Return a port of this machine on which no process listens now.

    It is below the ports that the system gives to outgoing connections. Otherwise, a connection of another test could
    take it before the ranks listen on it.
    """
    drawn = random.SystemRandom()
    while True:
        port = drawn.randrange(20_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
