"""Validate on fixed, named sets. Each validation reads the same samples and polls for orders between sets.

The batches are read in this process, because the forked workers of a data loader can hang (BLOOM lost 35 hours).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from bloomery.contracts.sample_reader import SampleReader
from training.data.batches import MicroBatch, micro_batches
from training.loop.build_engine import Trainer
from training.parallel.cross_entropy import IGNORED


def validate(trainer: Trainer, reader: SampleReader, interrupted: Callable[[], bool]) -> dict[str, float] | None:
    """Return the mean loss per token of each set. Collective.

    Return None if `interrupted()`, polled between sets, returns True.
    """
    losses: dict[str, float] = {}
    most = trainer.stage.training.validation.samples
    sets = {name: min(reader.validation_samples(name), most) for name in reader.validation_names}
    for name, count in sets.items():
        if not count:
            continue
        if losses and interrupted():
            return None

        def read(sample: int, name: str = name) -> npt.NDArray[np.int64]:
            return reader.validation(name, sample)

        losses[name] = mean_loss(trainer, read, count)
    return losses


def mean_loss(trainer: Trainer, read: Callable[[int], npt.NDArray[np.int64]], count: int) -> float:
    """Return the mean loss per token of samples 0 to count - 1. Collective.

    The result is the same on every layout, up to rounding. Every replica computes the same number of micro-batches. If
    there are too few samples to fill them, the last sample is repeated with ignored labels.
    """
    engine, mesh = trainer.engine, trainer.mesh
    replicas = mesh.parallel.data
    size = min(trainer.stage.training.batch.micro_batch_size, -(-count // replicas))
    rounds = -(-count // (size * replicas))
    engine.reset_activation_shape()
    # Reset DeepSpeed's accumulated loss from the previous pass.
    engine.total_loss = None
    batches = _padded(read, count, rounds, size, mesh.data_rank, replicas)
    losses = engine.eval_batch(batches, reduce_output=None, bcast_loss=False, num_micro_batches=rounds)
    engine.reset_activation_shape()
    total = torch.zeros((), dtype=torch.float64, device=mesh.device)
    if mesh.is_last_stage and mesh.tensor_rank == 0:
        # A micro-batch's loss is the sum over its tokens divided by the number of its tokens, including ignored ones.
        total = torch.stack(losses).double().sum() * size
    dist.all_reduce(total)
    return float(total) / count


def _padded(
    read: Callable[[int], npt.NDArray[np.int64]], count: int, rounds: int, size: int, replica: int, replicas: int
) -> Iterator[MicroBatch]:
    """Yield this replica's micro-batches of samples 0 to count - 1, padded with ignored copies of the last sample."""
    numbers = list(range(rounds * size * replicas))
    batches = micro_batches(lambda sample: read(min(sample, count - 1)), numbers, size, replica, replicas)
    for number, (inputs, labels) in enumerate(batches):
        first = (number * replicas + replica) * size
        real = torch.arange(first, first + size).unsqueeze(1) < count
        yield inputs, labels.masked_fill(~real, IGNORED)
