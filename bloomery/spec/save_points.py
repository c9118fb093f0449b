"""After which iterations a checkpoint is saved, and which checkpoints are kept for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.training_loop import CheckpointConfig


def is_due(checkpoint: CheckpointConfig, iteration: int) -> bool:
    """Whether the configuration asks for a save after `iteration` (the ends of segments and of training apart)."""
    return iteration > 0 and (iteration % interval(checkpoint, iteration) == 0 or iteration in checkpoint.at_iterations)


def interval(checkpoint: CheckpointConfig, iteration: int) -> int:
    """Iterations between saves at `iteration`: the first rule that reaches it, else `every_iterations`."""
    rules = (rule.every_iterations for rule in checkpoint.schedule if iteration <= rule.until_iteration)
    return next(rules, checkpoint.every_iterations)


def saves_until(checkpoint: CheckpointConfig, iteration: int) -> int:
    """How many saves are due up to `iteration`; counted by rules, not by iterations."""
    count, start = 0, 0
    for rule in checkpoint.schedule:
        end = min(rule.until_iteration, iteration)
        count += max(0, end // rule.every_iterations - start // rule.every_iterations)
        start = max(start, end)
    count += iteration // checkpoint.every_iterations - start // checkpoint.every_iterations
    extra = {each for each in checkpoint.at_iterations if each <= iteration and each % interval(checkpoint, each)}
    return count + len(extra)


def is_for_good(checkpoint: CheckpointConfig, iteration: int) -> bool:
    """Whether a checkpoint of `iteration` is never removed."""
    every = checkpoint.keep_every_iterations
    return iteration in checkpoint.at_iterations or (every is not None and iteration % every == 0)


def kept(checkpoint: CheckpointConfig, saved: list[int]) -> list[int]:
    """Iterations of `saved` whose checkpoints stay, ascending: the newest `keep_last`, and all that are for good."""
    ordered = sorted(saved)
    newest = ordered[-checkpoint.keep_last :]
    return [each for each in ordered if each in newest or is_for_good(checkpoint, each)]
