"""Checks of the blend. The stages of the blend must be in order and must fit the length of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.checks.check_batch import has_countable_steps
from bloomery.config.section import Contradiction
from bloomery.spec.batch import samples_to_read

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def blend_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find stages of the blend that are out of order, that begin after the end of the training, or whose `spread_to` is
    less than the sample at which they end."""
    stages, training = config.index.blend, config.training
    if not stages or not has_countable_steps(config.model, config.training):
        return []
    samples = samples_to_read(training.batch, training.train_samples)
    length = ("training.train_samples", "training.batch")
    found = []
    for number, stage in enumerate(stages):
        section = f"index.blend[{number}]"
        begin, last = stage.from_sample, number + 1 == len(stages)
        end = samples if last else stages[number + 1].from_sample
        key = f"{section}.from_sample"
        if number == 0 and begin != 0:
            message = f"{key} {begin}: the first stage of the blend must begin at sample 0"
            found.append(Contradiction(message, (key,), begin, "0"))
        if number and begin <= stages[number - 1].from_sample:
            before = stages[number - 1].from_sample
            message = f"{key} {begin} must be above from_sample {before} of the previous stage of the blend"
            keys: tuple[str, ...] = (key, f"index.blend[{number - 1}].from_sample")
            found.append(
                Contradiction(message, keys, begin, f"at least {before + 1}, with the stages in ascending order")
            )
        elif begin >= samples > 0:
            message = f"{key} {begin}: the stage would never begin, because the training reads only {samples} samples"
            found.append(Contradiction(message, (key, *length), begin, f"at most {samples - 1}"))
        elif stage.spread_to is not None and begin < end and stage.spread_to < end:
            key = f"{section}.spread_to"
            message = f"{key} {stage.spread_to} is less than {end}, the sample at which this stage of the blend ends"
            keys = (key, *length) if last else (key, f"index.blend[{number + 1}].from_sample")
            found.append(Contradiction(message, keys, stage.spread_to, f"at least {end}, or null"))
    return found
