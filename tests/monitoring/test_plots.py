"""Test the plots of a training's curves."""

from __future__ import annotations

import math

from falling_loss import records, validations

from monitoring.training_page import training_page


def test_a_diverged_loss_is_drawn() -> None:
    assert "<svg" in training_page("a", records(3, loss=math.nan), [])


def test_non_finite_losses_are_gaps_and_are_reported() -> None:
    hurt = [record.model_copy(update={"loss": None, "grad_norm": None}) for record in records(3)]
    page = training_page("a", [*records(40), *hurt], [validations(1)[0].model_copy(update={"validation_mean": None})])
    assert "→ not finite" in page
    assert "not finite (perplexity of the last mean: not finite)" in page
