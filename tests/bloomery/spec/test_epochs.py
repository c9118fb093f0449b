"""Test the number of samples in a number of epochs."""

from __future__ import annotations

import pytest

from bloomery.spec.epochs import samples_of_epochs


@pytest.mark.parametrize(
    ("epochs", "tokens", "samples"), [(1, 33, 2), (1, 32, 1), (2, 33, 4), (0.5, 33, 0), (0.5, 34, 1), (1, 0, 0)]
)
def test_each_sample_but_the_last_ends_where_the_next_begins(epochs: float, tokens: int, samples: int) -> None:
    assert samples_of_epochs(epochs, tokens, 16) == samples
