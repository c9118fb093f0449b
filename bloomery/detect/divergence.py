"""Detect slow divergence: a loss that climbs for tens to thousands of iterations.

The spike detector misses most such climbs, because its window of usual values climbs too. This detector compares the
level of the loss now with the lowest level within a long window.

Statistics. Iterations are divided into blocks of 16: 1 to 16, 17 to 32, and so on. The level at the end of a block is
the median of log(loss) over the last 3 blocks (48 iterations). At the end of each block, the detector computes

    rise = min(level now, median of the block before the newest one) - lowest earlier level of the window

and the training diverges if the rise is larger than both of these:

- log(1 + `least_rise`), the smallest relative rise of the loss that counts;
- `deviations` times the noise of a difference of two levels.

A loss that falls does not count: the median of the newest block must be at least as high as that of the block before
it, and the second half of the newest block may be lower than its first half by at most 3 standard errors.

The noise is the larger of two estimates. The first estimate, of fast noise, assumes that the noise of successive losses
is independent. From their differences, 1.4826 median(|difference|) / sqrt(2) is the standard deviation of a loss, and
1.2533 / sqrt(48) times this value is the standard error of a median of 48 values (Kenney and Keeping, Mathematics of
Statistics, 1962). The second estimate, of slow noise, measures noise that is correlated over many iterations. It uses
the second differences of levels 3 blocks apart, which have no iteration in common. Second differences do not contain
the decline of the loss.

Reasons for this choice:

- Medians ignore a spike that recovers within 24 iterations. While a longer spike recovers, the loss falls, and a
  falling loss does not count.
- A larger batch changes the noise of the loss and not its level, so the window reaches across a batch ramp-up. Each
  level has its own estimate of the noise.
- A longer sequence changes the level. A level counts only if its sequences had at least 4/5 of the length now, so
  the small steps of a curriculum keep the window, and large steps empty it. Another mixture of the data (`stage`) also
  empties it.
- During a fast decline, such as in the warm-up, the lowest level is the last one, so a rise is found there too.

The state depends only on the last `records_needed` iterations. Blocks begin at fixed iterations, and each level is
computed from its own values. So the last records of metrics.jsonl, shown to a new detector, rebuild the state exactly.
Memory is bounded by the window. The detector reads no clock and no file.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

BLOCK = 16
"""Iterations of a block."""
_LEVEL_BLOCKS = 3
"""Blocks of a level."""
_LEAST_LEVELS = 12
"""Number of earlier levels from which a rise is judged: iteration 272 of a training is the first that is judged."""
_QUIET_BLOCKS = 16
"""Number of blocks. A divergence is new, and is reported, if no divergence was found in this number of blocks before
it."""
_LEAST_LENGTH = 0.8
"""Smallest ratio of the sequence length of an earlier level to the length now at which the levels are compared."""
_MAD_TO_DEVIATION = 1.4826
"""Ratio of a normal distribution's standard deviation to its median absolute deviation."""
_MEDIAN_ERROR = 1.2533 / math.sqrt(BLOCK * _LEVEL_BLOCKS)
"""Ratio of the standard error of a level to the standard deviation of a value."""


@dataclass(frozen=True)
class Divergence:
    """A loss that has climbed above its lowest level of the window."""

    iteration: int
    """Last iteration of the block in which the divergence was found."""
    loss: float
    """Level of the loss now: its median over the last 48 iterations."""
    best: float
    """Lowest earlier level of the loss in the window."""
    best_iteration: int
    """Last iteration of the lowest level."""
    begin: int
    """Last iteration that was surely healthy. It is 24 iterations (half a level) before the end of the last low level.

    A level is low if it exceeds the lowest level by at most a quarter of the rise.
    """
    deviations: float
    """Rise of log(loss), divided by the noise."""
    grad_norm_ratio: float | None
    """Level of the gradient norm now, divided by that at the lowest level of the loss. None if one is not known."""

    @property
    def rise(self) -> float:
        """Relative rise of the loss. 0.05 is a rise of 5 %."""
        return self.loss / self.best - 1.0

    @property
    def message(self) -> str:
        """Message for the log."""
        norm = self.grad_norm_ratio
        return (
            f"the loss climbs: at iteration {self.iteration}, its median over the last {BLOCK * _LEVEL_BLOCKS} "
            f"iterations is {self.loss:.4g}, {100 * self.rise:.1f} % above {self.best:.4g}, its lowest median, "
            f"at iteration {self.best_iteration} ({self.deviations:.1f} standard deviations)"
            + ("" if norm is None else f"; the gradient norm is {norm:.2g} times its value at that iteration")
        )


@dataclass(frozen=True)
class _Block:
    """Values of the iterations of a block. Values that are not finite are left out."""

    index: int
    losses: tuple[float, ...]
    """Logarithms of the losses."""
    norms: tuple[float, ...]
    length: int
    """Sequence length of the last iteration, in tokens. 0 if it is constant."""


@dataclass(frozen=True)
class _Level:
    index: int
    """Index of the last block."""
    level: float
    """Median of log(loss)."""
    error: float
    """Standard error of `level` if the noise of the losses is independent."""
    norm: float | None
    """Median of the gradient norm."""
    length: int


class DivergenceDetector:
    """Detector of a slow climb of the loss."""

    def __init__(self, window: int, least_rise: float, deviations: float) -> None:
        """Prepare a detector.

        Args:
            window: number of iterations within which the lowest level is searched.
            least_rise: smallest relative rise of the loss that is a divergence. 0.03 is a rise of 3 %.
            deviations: smallest rise in units of its noise that is a divergence.
        """
        self._blocks_kept, self._deviations = max(window // BLOCK, _LEAST_LEVELS + _LEVEL_BLOCKS), deviations
        self._least_rise = math.log1p(least_rise)
        self._begin()

    def _begin(self) -> None:
        """Forget all iterations."""
        self._last: int | None = None
        self._stage, self._length = 0, 0
        self._complete = False
        """Whether the current block was seen from its first iteration on."""
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._blocks: deque[_Block] = deque(maxlen=_LEVEL_BLOCKS)
        self._levels: deque[_Level] = deque(maxlen=self._blocks_kept)
        self._last_high: int | None = None

    @staticmethod
    def records_needed(window: int) -> int:
        """Return the number of past iterations that a new detector must see before it judges like an older detector."""
        return max(window, BLOCK * (_LEAST_LEVELS + _LEVEL_BLOCKS)) + BLOCK * (_LEVEL_BLOCKS + _QUIET_BLOCKS + 1)

    @property
    def last_high_iteration(self) -> int | None:
        """Last iteration of the newest block in which the loss was too high. None if the loss was never too high.

        It grows while a divergence continues, although `seen` returns a divergence only once.
        """
        return None if self._last_high is None else self._last_high * BLOCK

    def seen(
        self, iteration: int, loss: float | None, grad_norm: float | None, *, length: int = 0, stage: int = 0
    ) -> Divergence | None:
        """Add an iteration. Return the divergence if one is found that was not reported before.

        Args:
            iteration: number of the iteration, from 1. Iterations follow each other. After a gap or a step back, the
                detector forgets all earlier iterations.
            loss: mean loss. Values that are None, not finite or not positive are ignored.
            grad_norm: gradient norm, which is only reported and does not decide.
            length: sequence length in tokens. 0 if it is constant.
            stage: number of the mixture of the data. A new mixture can have another loss.
        """
        gap = self._last is not None and iteration != self._last + 1
        shorter, longer = sorted((self._length, length))
        if gap or shorter < _LEAST_LENGTH * longer or stage != self._stage:
            self._begin()
        self._last, self._stage, self._length = iteration, stage, length
        if iteration % BLOCK == 1:
            self._complete = True
            self._losses, self._norms = [], []
        if loss is not None and math.isfinite(loss) and loss > 0:
            self._losses.append(math.log(loss))
        if grad_norm is not None and math.isfinite(grad_norm):
            self._norms.append(grad_norm)
        if iteration % BLOCK or not self._complete:
            return None
        return self._judge(iteration)

    def _judge(self, iteration: int) -> Divergence | None:
        """Judge the level at the end of a block, and then keep it."""
        index = iteration // BLOCK
        if len(self._losses) >= BLOCK // 2:
            self._blocks.append(_Block(index, tuple(self._losses), tuple(self._norms), self._length))
        if len(self._blocks) < _LEVEL_BLOCKS or self._blocks[0].index != index - _LEVEL_BLOCKS + 1:
            return None
        now = _level(self._blocks)
        while self._levels and self._levels[0].index <= index - self._blocks_kept:
            self._levels.popleft()
        found = None if self._falls(now) else self._compare(now, median(self._blocks[-2].losses))
        self._levels.append(now)
        if found is None:
            return None
        known = self._last_high is not None and index - self._last_high <= _QUIET_BLOCKS
        self._last_high = index
        return None if known else found

    def _falls(self, now: _Level) -> bool:
        """Whether the loss falls, as after a spike."""
        previous, newest = self._blocks[-2].losses, self._blocks[-1].losses
        half = len(newest) // 2
        # The factor turns the error of a median of 48 values into that of the difference of two medians of `half`
        # values.
        error = now.error * math.sqrt(2 * BLOCK * _LEVEL_BLOCKS / half)
        return median(newest) < median(previous) or median(newest[half:]) < median(newest[:half]) - 3 * error

    def _compare(self, now: _Level, previous: float) -> Divergence | None:
        """Compare a level with the earlier ones. Return None if it is not high.

        `previous` is the median of the block before the newest one.
        """
        past = [
            each
            for each in self._levels
            if each.index <= now.index - _LEVEL_BLOCKS and each.length >= _LEAST_LENGTH * now.length
        ]
        if len(past) < _LEAST_LEVELS:
            return None
        best = min(past, key=lambda each: each.level)
        rise = min(now.level, previous) - best.level
        if rise <= self._least_rise:
            return None
        noise = max(math.hypot(now.error, best.error), _slow_noise(past))
        if rise <= self._deviations * noise:
            return None
        low = max(each.index for each in past if each.level <= best.level + rise / 4)
        return Divergence(
            iteration=now.index * BLOCK,
            loss=math.exp(now.level),
            best=math.exp(best.level),
            best_iteration=best.index * BLOCK,
            # Up to half of the values of a low level may be high.
            begin=low * BLOCK - BLOCK * _LEVEL_BLOCKS // 2,
            deviations=rise / noise if noise else math.inf,
            grad_norm_ratio=now.norm / best.norm if now.norm is not None and best.norm else None,
        )


def _level(blocks: Iterable[_Block]) -> _Level:
    """Return the level of successive blocks."""
    all_blocks = list(blocks)
    values = [value for block in all_blocks for value in block.losses]
    norms = [value for block in all_blocks for value in block.norms]
    steps = [abs(after - before) for before, after in pairwise(values)]
    deviation = _MAD_TO_DEVIATION * median(steps) / math.sqrt(2)
    return _Level(
        index=all_blocks[-1].index,
        level=median(values),
        error=_MEDIAN_ERROR * deviation,
        norm=median(norms) if norms else None,
        length=all_blocks[-1].length,
    )


def _slow_noise(levels: list[_Level]) -> float:
    """Return the robust standard deviation of the difference of two levels that have no iteration in common.

    It is computed from second differences. For independent levels of variance v, a second difference has the variance
    6 v, and a difference has 2 v. Return 0 if there are fewer than 3 second differences.
    """
    by_index = {each.index: each.level for each in levels}
    bends = []
    for index, level in by_index.items():
        middle, first = by_index.get(index - _LEVEL_BLOCKS), by_index.get(index - 2 * _LEVEL_BLOCKS)
        if middle is not None and first is not None:
            bends.append(abs(level - 2 * middle + first))
    return _MAD_TO_DEVIATION * median(bends) / math.sqrt(3) if len(bends) >= 3 else 0.0
