"""Compare the overview of a training's sizes with the published sizes of BLOOM-176B."""

from __future__ import annotations

import pytest

from bloomery.config.run import RunConfig
from bloomery.spec.overview import overview
from bloomery.spec.partition import stage_bounds

WORLD, ROWS = 384, 250_880


def test_the_overview_shows_blooms_twelve_pipeline_stages(bloom: RunConfig) -> None:
    assert overview(bloom).stages == ["embed|5", *["6"] * 10, "5|head"]
    bounds = stage_bounds(bloom.model, ROWS, 12, "parameters")
    assert (bounds[0], bounds[1], bounds[-1]) == (0, 7, 74)


def test_the_checkpoint_size_equals_blooms(bloom: RunConfig) -> None:
    """14 bytes for each parameter are 2.24 TiB. The last stage saves the tied embedding's optimizer state again."""
    assert overview(bloom).checkpoint_bytes / 2**40 == pytest.approx(2.24 + 12 * 250_880 * 14_336 / 2**40, abs=0.01)
