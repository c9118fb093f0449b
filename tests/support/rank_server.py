"""Fork ranks from a process that has imported torch and DeepSpeed once. `ranks.run_ranks` starts and uses this server.

The program gets the file descriptor of a connection. It ends, with its ranks, when the other end closes.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Job:
    """A function of a test file to run on `world` ranks."""

    file: str
    function: str
    world: int
    arguments: tuple[Any, ...]
    environment: dict[str, str]
    path: list[str]
    folder: str
    """Folder for `<rank>.pickle`, the rank's result or traceback, and `<rank>.log`, the rank's output."""
    timeout: float


def _call(job: Job) -> Any:
    sys.path[:] = job.path
    # Warnings, threads and log levels are set as in a rank of a real training.
    import torch

    from training.loop.quiet_logging import quiet_logging

    torch.set_num_threads(1)
    quiet_logging()
    spec = importlib.util.spec_from_file_location("ranks_job", job.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look up their module by its name.
    sys.modules["ranks_job"] = module
    spec.loader.exec_module(module)
    result = getattr(module, job.function)(*job.arguments)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return result


def _rank(job: Job, rank: int) -> NoReturn:
    """Run a rank in its own process. This function never returns to the server."""
    folder, status = Path(job.folder), 1
    try:
        log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(job.environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job.world))
        # Shortly before the timeout, the log gets the position of every thread.
        faulthandler.dump_traceback_later(0.9 * job.timeout, file=2)
        try:
            answer = (True, _call(job))
        except BaseException:
            answer = (False, traceback.format_exc())
        # The file gets its final name when it is complete. If a rank fails, the others may be killed while they write.
        (folder / f"{rank}.part").write_bytes(pickle.dumps(answer))
        (folder / f"{rank}.part").rename(folder / f"{rank}.pickle")
        status = 0 if answer[0] else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(job: Job, connection: Connection) -> str | None:
    """Run a job. Return None if every rank succeeds, or else a description of the failure. Kill the other ranks."""
    processes: dict[int, int] = {}
    for rank in range(job.world):
        if (pid := os.fork()) == 0:
            connection.close()
            _rank(job, rank)
        processes[pid] = rank
    deadline, problem = time.monotonic() + job.timeout, None
    try:
        while processes and problem is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                ended = [(processes.pop(pid), status)]
                while status and processes and (other := os.waitpid(-1, os.WNOHANG))[0]:
                    ended.append((processes.pop(other[0]), other[1]))
                failed = [each for each in ended if each[1]]
                if failed:
                    # Other ranks may fail because of the first failure. A rank that a signal ended is the likely cause.
                    rank, status = max(failed, key=lambda each: bool(each[1] & 127))
                    problem = f"rank {rank} failed" + (f" by signal {status & 127}" if status & 127 else "")
            elif time.monotonic() > deadline:
                problem = f"ranks {sorted(processes.values())} did not end within {job.timeout:g} s"
            elif wait([connection], 0.005):
                problem = "the test process closed the connection"
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        for pid in processes:
            os.waitpid(pid, 0)
    return problem


def main() -> None:
    """Run jobs until the other end of the connection closes."""
    # Forked ranks share these imports. Otherwise each rank would import the last two with its first optimizer, which
    # takes 2 s. DeepSpeed collects garbage many times when it starts. The freeze excludes the objects of these imports
    # from the collections, which saves another 2 s.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import deepspeed.ops
    import deepspeed.pipe
    import deepspeed.runtime.zero.muon.muon_optimizer
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    assert deepspeed.ops.__compatible_ops__, "DeepSpeed probes its operators once, with a compiler"
    gc.collect()
    gc.freeze()
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            job = connection.recv()
            connection.send(_run(job, connection))
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main()
