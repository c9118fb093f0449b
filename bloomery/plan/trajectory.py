"""A whole run as few stretches of equal steps, so that its state after any iteration, sample or token is a look-up.

A stretch is found by bisection: a plan costs its batch sizes and sample lengths (BLOOM: 117), not its steps.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bloomery.plan.batch import global_batch_size, leading
from bloomery.plan.curriculum import sequence_length

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps of one batch size and one length. The counts are those before its first step."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    steps: int
    global_batch_size: int
    sequence_length: int
    """Tokens of a sample; of encoder and decoder together (T5)."""

    def after(self, steps: int) -> Point:
        """Where the run stands when `steps` of these steps are done."""
        samples = steps * self.global_batch_size
        return Point(
            iteration=self.iteration + steps,
            consumed_samples=self.consumed_samples + samples,
            consumed_tokens=self.consumed_tokens + samples * self.sequence_length,
            global_batch_size=self.global_batch_size,
            sequence_length=self.sequence_length,
        )


@dataclass(frozen=True)
class Point:
    """The state after an iteration; batch and length are that iteration's own, as a log line prints them."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    global_batch_size: int
    sequence_length: int


@dataclass(frozen=True)
class Trajectory:
    """All stretches of a run, in order."""

    stretches: tuple[Stretch, ...]

    @property
    def end(self) -> Point:
        """The state at the end of training."""
        if not self.stretches:  # of a run that is refused: not a single batch
            return Point(0, 0, 0, 0, 0)
        last = self.stretches[-1]
        return last.after(last.steps)

    @property
    def iterations(self) -> int:
        """Steps of the whole run."""
        return self.end.iteration

    def after_iteration(self, iteration: int) -> Point:
        """The state after `iteration` steps (0: before the first). Raises ValueError beyond the run."""
        if not 0 <= iteration <= self.iterations:
            raise ValueError(f"iteration {iteration} is not in 0 .. {self.iterations}")
        stretch = self._stretch([each.iteration for each in self.stretches], iteration)
        return stretch.after(iteration - stretch.iteration)

    def after_samples(self, samples: int) -> Point:
        """The state after the last step that ends at or before `samples`. Raises ValueError beyond the run."""
        if not 0 <= samples <= self.end.consumed_samples:
            raise ValueError(f"{samples} samples are not in 0 .. {self.end.consumed_samples}")
        stretch = self._stretch([each.consumed_samples for each in self.stretches], samples)
        return stretch.after((samples - stretch.consumed_samples) // stretch.global_batch_size)

    def after_tokens(self, tokens: int) -> Point:
        """The state after the last step that ends at or before `tokens`. Raises ValueError beyond the run."""
        if not 0 <= tokens <= self.end.consumed_tokens:
            raise ValueError(f"{tokens} tokens are not in 0 .. {self.end.consumed_tokens}")
        stretch = self._stretch([each.consumed_tokens for each in self.stretches], tokens)
        step = stretch.global_batch_size * stretch.sequence_length
        return stretch.after((tokens - stretch.consumed_tokens) // step)

    def tokens_at(self, samples: int) -> int:
        """Tokens consumed with `samples` samples, also in the middle of a step; beyond the end as the last step."""
        stretch = self._stretch([each.consumed_samples for each in self.stretches], samples)
        return stretch.consumed_tokens + (samples - stretch.consumed_samples) * stretch.sequence_length

    def _stretch(self, starts: list[int], value: int) -> Stretch:
        # The stretch whose step ended at `value`, not the one that begins there: its batch is the one that was used.
        found = bisect_right(starts, value) - 1
        return self.stretches[found - 1 if found > 0 and starts[found] == value else found]


@lru_cache(maxsize=64)
def trajectory(model: ModelConfig, training: TrainingConfig) -> Trajectory:
    """The run of `training`: as the loop runs it, a last batch that cannot be filled is not run."""
    batch, curriculum = training.batch, training.curriculum
    other = model.decoder_sequence_length or 0

    def kind(consumed: int, samples: int) -> tuple[int, int]:
        """Batch and length of the step after `consumed` samples; the length as in a batch of `samples`."""
        return global_batch_size(batch, consumed), sequence_length(curriculum, model, consumed, samples) + other

    found: list[Stretch] = []
    iteration = samples = tokens = 0
    while training.train_tokens is None or tokens < training.train_tokens:
        size = global_batch_size(batch, samples)
        here = kind(samples, size)
        length = here[1]
        most = (training.train_samples - samples) // size
        if training.train_tokens is not None:
            most = min(most, -((tokens - training.train_tokens) // (size * length)))
        if most == 0:
            break

        def alike(step: int, start: int = samples, here: tuple[int, int] = here) -> bool:
            return kind(start + step * here[0], here[0]) == here

        steps = leading(alike, most)
        found.append(Stretch(iteration, samples, tokens, steps, size, length))
        iteration, samples, tokens = iteration + steps, samples + steps * size, tokens + steps * size * length
    return Trajectory(tuple(found))
