"""Compute the sequence length from the consumed samples.

The rule is DeepSpeed's `fixed_linear` (Li et al. 2021, arXiv:2108.06084).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import CurriculumConfig


def sequence_length(
    curriculum: CurriculumConfig | None, model: ModelConfig, consumed_samples: int, batch_samples: int
) -> int:
    """Return the number of tokens per sample in the step of `batch_samples` samples after `consumed_samples`.

    The length is start + share * (full - start), rounded down to a multiple of `length_step`, and at most `full`.
    `full` is the model's sequence length. `share` is the number of consumed samples, including those of the step
    itself, divided by the number of samples of the curriculum. At a constant batch size this equals DeepSpeed's rule,
    which counts steps from 1.
    """
    if curriculum is None:
        return model.sequence_length
    share = (consumed_samples + batch_samples) / curriculum.samples
    length = math.floor(share * (model.sequence_length - curriculum.start_length) + curriculum.start_length)
    return max(1, min(length - length % curriculum.length_step, model.sequence_length))
