"""Represent a whole run as a few stretches of equal steps, so that the state after any step can be looked up.

The state is found by iteration, sample or token. Stretches are found by bisection, so the cost grows with the number of
batch sizes and sequence lengths (BLOOM: 117 stretches), not with the number of steps.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bloomery.spec.batch import global_batch_size, leading, samples_to_read
from bloomery.spec.curriculum import sequence_length
from bloomery.spec.position import START, Position
from bloomery.spec.skip_arithmetic import next_batch, plain_until, skipped_before

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import BatchConfig, CurriculumConfig, TrainingConfig
    from bloomery.config.training_loop import SkipRange


@dataclass(frozen=True)
class PlannedPosition(Position):
    """Position in a plan, with the batch size and sequence length of its last iteration, which a log line prints."""

    global_batch_size: int = 0
    """Samples of the last iteration; 0 before the first iteration."""
    sequence_length: int = 0
    """Tokens of each of these samples."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps with the same batch size and sequence length. The counters are those before the first step."""

    iteration: int
    consumed_samples: int
    consumed_tokens: int
    steps: int
    global_batch_size: int
    sequence_length: int
    """Tokens of a sample. For T5 this is the sum of the encoder's and the decoder's tokens."""
    skipped_samples: int = 0
    """Number of samples skipped before the first step."""
    skips: int = 0
    """Number of samples that each step skips. A stretch that skips samples has only one step."""

    @property
    def advance(self) -> int:
        """Number by which one step increases consumed_samples: samples trained on and samples skipped."""
        return self.global_batch_size + self.skips

    def after(self, steps: int) -> PlannedPosition:
        """Return the position after `steps` steps of this stretch."""
        return PlannedPosition(
            iteration=self.iteration + steps,
            consumed_samples=self.consumed_samples + steps * self.advance,
            consumed_tokens=self.consumed_tokens + steps * self.global_batch_size * self.sequence_length,
            global_batch_size=self.global_batch_size,
            sequence_length=self.sequence_length,
            skipped_samples=self.skipped_samples + steps * self.skips,
        )


@dataclass(frozen=True)
class Trajectory:
    """All stretches of a run from `start` on, in order."""

    stretches: tuple[Stretch, ...]
    start: PlannedPosition = PlannedPosition()
    skip: tuple[SkipRange, ...] = ()

    @property
    def end(self) -> PlannedPosition:
        """Position at the end of training."""
        if not self.stretches:  # There is no step: the run starts at its end, or it cannot fill one batch.
            return self.start
        last = self.stretches[-1]
        return last.after(last.steps)

    @property
    def iterations(self) -> int:
        """Iteration at the end of the run."""
        return self.end.iteration

    def after_iteration(self, iteration: int) -> PlannedPosition:
        """Return the position after `iteration` (0 is before the first iteration).

        Raises:
            ValueError: the iteration is outside the run.
        """
        self._require("iteration", self.start.iteration, iteration, self.iterations)
        stretch = self._stretch([each.iteration for each in self.stretches], iteration)
        return stretch.after(iteration - stretch.iteration)

    def after_samples(self, samples: int) -> PlannedPosition:
        """Return the position after the last step that ends at or before `samples` consumed samples.

        Raises:
            ValueError: the number of samples is outside the run.
        """
        self._require("sample", self.start.consumed_samples, samples, self.end.consumed_samples)
        stretch = self._stretch([each.consumed_samples for each in self.stretches], samples)
        return stretch.after((samples - stretch.consumed_samples) // stretch.advance)

    def after_tokens(self, tokens: int) -> PlannedPosition:
        """Return the position after the last step that ends at or before `tokens` consumed tokens.

        Raises:
            ValueError: the number of tokens is outside the run.
        """
        self._require("token", self.start.consumed_tokens, tokens, self.end.consumed_tokens)
        stretch = self._stretch([each.consumed_tokens for each in self.stretches], tokens)
        step = stretch.global_batch_size * stretch.sequence_length
        return stretch.after((tokens - stretch.consumed_tokens) // step)

    def tokens_at(self, samples: int) -> int:
        """Return the number of tokens consumed at position `samples`, which may be in the middle of a step.

        Beyond the end of the run, the sequence length of the last step is used.
        """
        stretch = self._stretch([each.consumed_samples for each in self.stretches], samples)
        first = stretch.consumed_samples
        skipped = skipped_before(self.skip, samples) - skipped_before(self.skip, first)
        return stretch.consumed_tokens + (samples - first - skipped) * stretch.sequence_length

    def samples_at(self, tokens: int) -> int:
        """Return the first position at which `tokens` tokens are consumed, which may be in the middle of a step.

        Beyond the end of the run, the sequence length of the last step is used.
        """
        stretch = self._stretch([each.consumed_tokens for each in self.stretches], tokens)
        samples = -((stretch.consumed_tokens - tokens) // stretch.sequence_length)
        return next_batch(self.skip, stretch.consumed_samples, samples).end if samples else stretch.consumed_samples

    def _require(self, what: str, first: int, value: int, last: int) -> None:
        if not first <= value <= last:
            raise ValueError(f"{what} {value} is outside the run, which covers {what}s {first} to {last}")

    def _stretch(self, starts: list[int], value: int) -> Stretch:
        if not self.stretches:
            at = self.start
            return Stretch(at.iteration, at.consumed_samples, at.consumed_tokens, 0, 1, 1, at.skipped_samples)
        # If a stretch begins at `value`, use the stretch before it, because the last executed step belongs to that
        # stretch.
        found = bisect_right(starts, value) - 1
        return self.stretches[found - 1 if found > 0 and starts[found] == value else found]


def trajectory(model: ModelConfig, training: TrainingConfig, start: Position = START) -> Trajectory:
    """Return the run of `training`. As in the training loop, a last batch that cannot be filled is not run.

    Positions include skipped samples. Skipping therefore shortens the run but does not change the index that it reads
    (`samples_to_read`). `start` is the position of a training that reached it with other settings. Its counters of
    skipped updates are ignored.
    """
    at = PlannedPosition(
        iteration=start.iteration,
        consumed_samples=start.consumed_samples,
        consumed_tokens=start.consumed_tokens,
        skipped_samples=start.skipped_samples,
    )
    ends = (training.train_samples, training.train_tokens)
    return _trajectory(model, training.batch, training.curriculum, *ends, tuple(training.skip), at)


def trajectory_through(model: ModelConfig, training: TrainingConfig, position: Position) -> Trajectory:
    """Return the whole run of `training` if it passes through `position`, else the run that starts at `position`."""
    whole = trajectory(model, training)
    if whole.start.iteration <= position.iteration <= whole.iterations:
        there = whole.after_iteration(position.iteration)
        if (there.consumed_samples, there.consumed_tokens) == (position.consumed_samples, position.consumed_tokens):
            return whole
    return trajectory(model, training, position)


@lru_cache(maxsize=64)
def _trajectory(
    model: ModelConfig,
    batch: BatchConfig,
    curriculum: CurriculumConfig | None,
    train_samples: int,
    train_tokens: int | None,
    skip: tuple[SkipRange, ...],
    start: PlannedPosition,
) -> Trajectory:
    other = model.decoder_sequence_length or 0
    last = samples_to_read(batch, train_samples)

    def kind(consumed: int, samples: int) -> tuple[int, int]:
        """Return global batch size and sequence length of the step after `consumed` samples.

        The sequence length is computed for a batch of `samples` samples.
        """
        return global_batch_size(batch, consumed), sequence_length(curriculum, model, consumed, samples) + other

    found: list[Stretch] = []
    here = start
    while train_tokens is None or here.consumed_tokens < train_tokens:
        samples = here.consumed_samples
        size = global_batch_size(batch, samples)
        this = kind(samples, size)
        skips = next_batch(skip, samples, size).end - samples - size
        if samples + size + skips > last:
            break
        until = last if (gap := plain_until(skip, samples)) is None else min(gap, last)
        most = 1 if skips else (until - samples) // size
        if train_tokens is not None:
            most = min(most, -((here.consumed_tokens - train_tokens) // (size * this[1])))

        def alike(step: int, first: int = samples, this: tuple[int, int] = this) -> bool:
            return kind(first + step * this[0], this[0]) == this

        steps = leading(alike, most)
        counts = (here.iteration, samples, here.consumed_tokens)
        found.append(Stretch(*counts, steps, *this, here.skipped_samples, skips))
        here = found[-1].after(steps)
    return Trajectory(tuple(found), start, skip)
