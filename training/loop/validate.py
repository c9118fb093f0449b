"""Validation on fixed, named sets, the same samples each time, with a poll between sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bloomery.base.progress import say
from bloomery.contracts.samples import SampleReader
from training.data.batches import micro_batches
from training.loop.engine import Trainer


def validate(trainer: Trainer, reader: SampleReader, poll: Callable[[], bool]) -> dict[str, float]:
    """Mean loss per set. Collective. Stops early, with the sets done so far, when `poll` says so.

    A set smaller than a micro-batch of every replica is read with a smaller micro-batch; one with fewer samples than
    replicas is left out.
    """
    training, mesh = trainer.stage.training, trainer.mesh
    data = mesh.parallel.data
    losses: dict[str, float] = {}
    for name in reader.validation_names:
        available = min(reader.validation_samples(name), training.validation.samples)
        size = min(training.batch.micro_batch_size, available // data)
        if size == 0:
            continue
        count = available // (size * data)
        trainer.engine.reset_activation_shape()
        batches = micro_batches(partial(reader.validation, name), 0, count * size * data, size, mesh.data_rank, data)
        losses[name] = float(trainer.engine.eval_batch(batches, num_micro_batches=count))
        if poll():
            say("validation was interrupted by an order")
            break
    trainer.engine.reset_activation_shape()
    return losses
