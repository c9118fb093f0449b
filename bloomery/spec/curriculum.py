"""Sequence length as a function of consumed samples (Li et al. 2021, arXiv:2108.06084; DeepSpeed's `fixed_linear`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import CurriculumConfig


def sequence_length(
    curriculum: CurriculumConfig | None, model: ModelConfig, consumed_samples: int, batch_samples: int
) -> int:
    """Tokens of a sample in the step of `batch_samples` that starts after `consumed_samples`.

    The length is start + share * (longest - start), cut to whole `length_step`s, where share counts the step itself: at
    a constant batch this is DeepSpeed's rule, which counts steps from 1.
    """
    if curriculum is None:
        return model.sequence_length
    share = (consumed_samples + batch_samples) / curriculum.samples
    length = math.floor(share * (model.sequence_length - curriculum.start_length) + curriculum.start_length)
    return max(1, min(length - length % curriculum.length_step, model.sequence_length))


def recommended_steps(train_tokens: int, batch_samples: int, model: ModelConfig) -> int:
    """Steps over which a curriculum should grow: half of what the run would have at full length.

    Rule of BigScience's train/tr8-104B-wide/README.md: 300e9 / 2048 / 2048 / 2, "~36_000".
    """
    return round(train_tokens / batch_samples / model.sequence_length / 2)
