"""Forks ranks out of a process that has imported torch and DeepSpeed once; `ranks.run_ranks` starts and asks it.

Run as a program with the file descriptor of a connection. It ends, and its ranks with it, when the other end closes.
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
    """Gets `<rank>.pickle`, the rank's result or the text of its error, and `<rank>.log`, what it said."""
    timeout: float


def _call(job: Job) -> Any:
    sys.path[:] = job.path
    # Warnings, threads and levels of chatter as in a rank of a real training.
    import torch

    from training.loop.quiet_logging import quiet_logging

    torch.set_num_threads(1)
    quiet_logging()
    spec = importlib.util.spec_from_file_location("ranks_job", job.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look their module up by its name.
    sys.modules["ranks_job"] = module
    spec.loader.exec_module(module)
    result = getattr(module, job.function)(*job.arguments)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return result


def _rank(job: Job, rank: int) -> NoReturn:
    """Body of a rank, in its own process; never returns into the server."""
    folder, status = Path(job.folder), 1
    try:
        log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(job.environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job.world))
        # Where it stands when time is nearly up.
        faulthandler.dump_traceback_later(0.9 * job.timeout, file=2)
        try:
            answer = (True, _call(job))
        except BaseException:
            answer = (False, traceback.format_exc())
        # By rename: the first rank that fails has the others killed while they write.
        (folder / f"{rank}.part").write_bytes(pickle.dumps(answer))
        (folder / f"{rank}.part").rename(folder / f"{rank}.pickle")
        status = 0 if answer[0] else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(job: Job, connection: Connection) -> str | None:
    """Run a job; None when each rank ended well, else what happened. Kills what is left over."""
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
                    # Its peers now wait for it in vain, or have failed because of it: a signal comes from without.
                    rank, status = max(failed, key=lambda each: bool(each[1] & 127))
                    problem = f"rank {rank} failed" + (f" by signal {status & 127}" if status & 127 else "")
            elif time.monotonic() > deadline:
                problem = f"ranks {sorted(processes.values())} did not end within {job.timeout:g} s"
            elif wait([connection], 0.005):
                problem = "given up"
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        for pid in processes:
            os.waitpid(pid, 0)
    return problem


def main() -> None:
    """Answer jobs until the other end closes."""
    # For the ranks: forked ones have them already. The last two come with the first optimizer (2 s), and DeepSpeed
    # collects garbage many times while it starts: over all of this (2 s again) but for the freeze.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import deepspeed.ops
    import deepspeed.pipe
    import deepspeed.runtime.zero.muon.muon_optimizer
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    assert deepspeed.ops.__compatible_ops__, "probed once, with a compiler"
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
