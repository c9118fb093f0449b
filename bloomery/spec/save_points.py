"""Decide after which iterations a checkpoint is saved, and which checkpoints are never removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training_loop import CheckpointConfig


def is_due(checkpoint: CheckpointConfig, iteration: int) -> bool:
    """Return whether the configuration requires a save after `iteration`.

    The saves at the end of a segment and at the end of the training are not considered.
    """
    return iteration > 0 and (iteration % interval(checkpoint, iteration) == 0 or iteration in checkpoint.at_iterations)


def interval(checkpoint: CheckpointConfig, iteration: int) -> int:
    """Return the number of iterations between saves at `iteration`.

    This is the interval of the first rule of `schedule` that covers the iteration, else `every_iterations`.
    """
    rules = (rule.every_iterations for rule in checkpoint.schedule if iteration <= rule.until_iteration)
    return next(rules, checkpoint.every_iterations)


def saves_until(checkpoint: CheckpointConfig, iteration: int) -> int:
    """Return the number of saves that are due up to `iteration`.

    The cost depends on the number of rules, not on the number of iterations.
    """
    count, start = 0, 0
    for rule in checkpoint.schedule:
        end = min(rule.until_iteration, iteration)
        count += max(0, end // rule.every_iterations - start // rule.every_iterations)
        start = max(start, end)
    count += iteration // checkpoint.every_iterations - start // checkpoint.every_iterations
    extra = {each for each in checkpoint.at_iterations if each <= iteration and each % interval(checkpoint, each)}
    return count + len(extra)


def is_for_good(checkpoint: CheckpointConfig, iteration: int) -> bool:
    """Return whether a checkpoint of `iteration` is never removed."""
    every = checkpoint.keep_every_iterations
    return iteration in checkpoint.at_iterations or (every is not None and iteration % every == 0)


def kept(checkpoint: CheckpointConfig, saved: list[int]) -> list[int]:
    """Return the iterations of `saved` whose checkpoints are retained, in ascending order.

    These are the newest `keep_last` checkpoints and those that are never removed.
    """
    ordered = sorted(saved)
    newest = ordered[-checkpoint.keep_last :]
    return [each for each in ordered if each in newest or is_for_good(checkpoint, each)]
