"""Test that the sequence length of a curriculum grows with the consumed samples."""

from __future__ import annotations

from bloomery.config.model import ModelConfig
from bloomery.config.training import (
    CurriculumConfig,
)
from bloomery.spec.curriculum import sequence_length

MODEL = ModelConfig(layers=2, hidden_size=16, heads=2, sequence_length=64)


def test_a_curriculum_grows_in_whole_steps_to_the_full_length() -> None:
    curriculum = CurriculumConfig(start_length=8, length_step=8, samples=1000)
    lengths = [sequence_length(curriculum, MODEL, consumed, 10) for consumed in range(0, 1200, 10)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[98], lengths[99], lengths[-1]) == (8, 56, 64, 64)
    assert all(length % 8 == 0 for length in lengths)
