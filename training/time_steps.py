"""Time a few training steps of a configuration on this machine, without data (`bloomery train probe`).

The network, the engine and the kernels are those of the training. The tokens are random, because the time of a step
does not depend on them. Only a few micro-batches are run. A step of m micro-batches takes m * micro_batch + update
seconds, so steps of one and of several micro-batches give both numbers.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from typing import Any

from bloomery.config.stages import TrainStage

MICRO_BATCHES = 3
"""Number of micro-batches of the longer steps."""
_ENOUGH_STEPS = 24
_ENOUGH_SHARE = 0.4
"""Share of the allowed time that is used even if `_ENOUGH_STEPS` steps need less, to average over other work on the
machine."""


def time_steps(stage: TrainStage, vocabulary_rows: int, seconds: float) -> dict[str, Any]:
    """Return the time of a micro-batch and of an update of one replica, in one process.

    The layout of `stage` is ignored: one process holds the whole model. The first step with each number of
    micro-batches is a warm-up. Its time is used only if there is no time for further steps.

    Args:
        stage: configuration of the training.
        vocabulary_rows: number of embedding rows.
        seconds: time after which no further step starts.

    Returns:
        `micro_batch_seconds`, `update_seconds`, `start_seconds` (from the call to the first step, imports included),
        `steps`, `device` and `memory_bytes` (peak).

    Raises:
        ConfigError: a kernel cannot run on this machine.
    """
    began = time.perf_counter()
    from training.loop.quiet_logging import quiet_logging

    quiet_logging()
    import torch

    from training.loop.build_engine import build_trainer
    from training.loop.peak_memory import peak_memory_bytes
    from training.parallel.mesh import build_mesh

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ["MASTER_PORT"] = str(_free_port())
    single = _single_process(stage)
    torch.set_num_threads(single.training.threads_per_rank)
    mesh = build_mesh(single.training.parallel)
    trainer = build_trainer(single, mesh, vocabulary_rows)
    size, length = single.training.batch.micro_batch_size, single.model.sequence_length
    tokens = torch.randint(0, vocabulary_rows, (size, length + 1), device=mesh.device)
    batch = (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    def step(count: int) -> float:
        trainer.engine.set_train_micro_batch_size(size)
        trainer.engine.set_train_batch_size(size * count)
        started = time.perf_counter()
        with trainer.network.dropout.step(single.seed, 1, [range(size)] * count):
            float(trainer.engine.train_batch(iter([batch] * count)))
        return time.perf_counter() - started

    start_seconds = time.perf_counter() - began
    began_steps = time.perf_counter()
    ends, enough = began_steps + seconds, began_steps + _ENOUGH_SHARE * seconds
    found: dict[int, list[float]] = {1: [], MICRO_BATCHES: []}
    warm_up = {1: step(1)}
    if warm_up[1] * (MICRO_BATCHES + 1) < seconds:
        warm_up[MICRO_BATCHES] = step(MICRO_BATCHES)
    steps = len(warm_up)
    while (left := ends - time.perf_counter()) > 0:
        if steps >= _ENOUGH_STEPS and time.perf_counter() > enough:
            break
        count = 1 if len(found[1]) <= len(found[MICRO_BATCHES]) or MICRO_BATCHES not in warm_up else MICRO_BATCHES
        # A warm-up takes longer than the steps after it, so a step of half its time may still fit.
        if warm_up.get(count, warm_up[1] * count) > 2 * left:
            break
        found[count].append(step(count))
        steps += 1
    micro, update = split_times(found[1] or [warm_up[1]], found[MICRO_BATCHES])
    result = {
        "micro_batch_seconds": micro,
        "update_seconds": update,
        "start_seconds": start_seconds,
        "steps": steps,
        "device": mesh.device.type,
        "memory_bytes": peak_memory_bytes(mesh.device),
    }
    torch.distributed.destroy_process_group()
    return result


def split_times(short: list[float], long: list[float]) -> tuple[float, float]:
    """Return the seconds of a micro-batch and of an update.

    `short` are the durations of steps with one micro-batch, and `long` those of steps with `MICRO_BATCHES`
    micro-batches. The result is computed from the medians. If there is no long step, or if the times are too noisy, the
    time of the update is 0 and is included in the time of the micro-batch.
    """
    one = statistics.median(short)
    if not long:
        return one, 0.0
    many = statistics.median(long)
    micro = (many - one) / (MICRO_BATCHES - 1)
    if micro <= 0 or micro > one:
        return many / MICRO_BATCHES, 0.0
    return micro, one - micro


def _single_process(stage: TrainStage) -> TrainStage:
    """Return the configuration for one process, with a global batch of `MICRO_BATCHES` micro-batches."""
    values = stage.model_dump(mode="json")
    values["training"]["parallel"] = {}
    size = values["training"]["batch"]["micro_batch_size"]
    values["training"]["batch"] = {"micro_batch_size": size, "global_batch_size": size * MICRO_BATCHES}
    return TrainStage.model_validate(values)


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])
