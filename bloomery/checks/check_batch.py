"""Checks of the batch: ramp-up, micro-batches and layout must fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction
from bloomery.spec.batch import global_batch_size, ladder_rungs, micro_batch_size

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import BatchConfig, TrainingConfig

MOST_SIZES = 10_000
"""Maximum number of batch sizes in a ramp-up, and of lengths in a curriculum. A plan iterates over all of them."""


def batch_contradictions(training: TrainingConfig) -> list[Contradiction]:
    """Find keys of `training.batch` that contradict each other, the layout of the training or its length."""
    batch, ramp = training.batch, training.batch.rampup
    full, first, size = "training.batch.global_batch_size", "training.batch.rampup.start", batch.global_batch_size
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    if ramp is not None and ramp.samples > training.train_samples:
        message = f"training: batch.rampup.samples {ramp.samples} exceeds train_samples {training.train_samples}"
        keys = ("training.batch.rampup.samples", "training.train_samples")
        problems.append(Contradiction(message, keys, ramp.samples, f"at most {training.train_samples}"))
    if ramp is not None and ramp.start > size:
        message = f"training: batch.rampup.start {ramp.start} exceeds global_batch_size {size}"
        return [*problems, Contradiction(message, (first, full), ramp.start, f"at most {size}")]
    if ramp is not None and (size - ramp.start) % ramp.increment:
        message = (
            f"training: batch.rampup: global_batch_size - start = {size - ramp.start} "
            f"must be a multiple of increment {ramp.increment}"
        )
        keys = ("training.batch.rampup.increment", full, first)
        return [
            *problems,
            Contradiction(message, keys, ramp.increment, f"an increment that divides {size - ramp.start}"),
        ]
    if ramp is not None and (grows := (size - ramp.start) // ramp.increment) > MOST_SIZES:
        message = (
            f"training: batch.rampup.increment {ramp.increment} gives {grows} steps from start {ramp.start} to "
            f"global_batch_size {size}"
        )
        keys = ("training.batch.rampup.increment", full, first)
        right = f"at least {-(-(size - ramp.start) // MOST_SIZES)}, for at most {MOST_SIZES} steps"
        return [*problems, Contradiction(message, keys, ramp.increment, right)]
    if unreached := _unreached_change(batch):
        return [*problems, unreached]
    rungs = (first, "training.batch.rampup.increment") if ramp is not None else ()
    units = [(rung, micro_batch_size(batch, rung)) for rung in ladder_rungs(batch)]
    if bad := [(rung, micro) for rung, micro in units if rung % (micro * training.parallel.data)]:
        micro = bad[0][1]
        alike = [str(rung) for rung, other in bad if other == micro]
        changes = ("training.batch.micro_batch_changes",) if batch.micro_batch_changes else ()
        unit = micro * training.parallel.data
        message = (
            f"training: batch sizes {', '.join(alike[:5])} are not divisible by micro_batch_size x parallel.data = "
            f"{micro} x {training.parallel.data} = {unit}"
        )
        keys = (full, *rungs, "training.batch.micro_batch_size", *changes, "training.parallel.data")
        of = "a global_batch_size" if ramp is None else "a start, an increment and a global_batch_size"
        return [*problems, Contradiction(message, keys, size, f"{of} divisible by {unit}")]
    if training.train_samples < (needed := global_batch_size(batch, 0)):
        message = f"training: train_samples {training.train_samples} does not fill the first batch of {needed} samples"
        keys = ("training.train_samples", full, first)
        problems.append(Contradiction(message, keys, training.train_samples, f"at least {needed}"))
    return problems


def _unreached_change(batch: BatchConfig) -> Contradiction | None:
    """Return a contradiction if a micro-batch change is outside the ramp-up or out of order."""
    start, full = global_batch_size(batch, 0), batch.global_batch_size
    key, before = "training.batch.micro_batch_changes", start
    for change in batch.micro_batch_changes:
        if not before < change.from_batch <= full:
            message = (
                f"training: batch.micro_batch_changes: from_batch {change.from_batch} must be above {before} "
                f"and at most {full}, because the global batch grows from {start} to {full}"
            )
            right = f"from_batch in ascending order, above {start} and at most {full}"
            if start == full:
                message = (
                    f"training: batch.micro_batch_changes: the micro-batch size cannot change at from_batch "
                    f"{change.from_batch}, because every global batch has {full} samples"
                )
                right = "no micro_batch_changes key, or a ramp-up in batch.rampup"
            return Contradiction(message, (key, "training.batch.rampup.start"), change.from_batch, right)
        before = change.from_batch
    return None


def has_countable_steps(model: ModelConfig, training: TrainingConfig) -> bool:
    """Return whether the run has at least one step, and at most `MOST_SIZES` batch sizes and sequence lengths.

    If the answer is no, other checks report the problem.
    """
    batch, curriculum = training.batch, training.curriculum
    sizes = (batch.global_batch_size - batch.rampup.start) // batch.rampup.increment if batch.rampup else 0
    lengths = (model.sequence_length - curriculum.start_length) // curriculum.length_step if curriculum else 0
    first = min(batch.rampup.start, batch.global_batch_size) if batch.rampup else batch.global_batch_size
    return max(sizes, lengths) <= MOST_SIZES and first <= training.train_samples
