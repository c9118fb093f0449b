"""The mixture's arithmetic."""

import pytest

from bloomery.base.errors import InputError
from bloomery.config.corpus import MixtureConfig
from data_prep.corpus.mixture import weights

SIZES = {"en": 1_000_000, "fr": 10_000, "yo": 100}


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.7, 1.0])
def test_weights_are_tempered_shares(alpha: float) -> None:
    found = weights(SIZES, MixtureConfig(alpha=alpha))
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert found["en"] / found["yo"] == pytest.approx(10_000**alpha)


def test_an_explicit_weight_takes_the_place_of_the_share_of_alpha() -> None:
    found = weights(SIZES, MixtureConfig(alpha=1.0, weights={"yo": 0.5, "fr": 0.0}))
    share = 1_000_000 / 1_010_100
    assert found == pytest.approx({"en": share / (share + 0.5), "fr": 0, "yo": 0.5 / (share + 0.5)})


def test_weights_that_cannot_be_met_are_errors() -> None:
    with pytest.raises(InputError, match=r"no clean document in de, zu.*en, fr, yo"):
        weights(SIZES, MixtureConfig(weights={"zu": 1, "de": 1, "xx": 0}))
    with pytest.raises(InputError, match="no language has any weight"):
        weights({"en": 5}, MixtureConfig(weights={"en": 0}))
    with pytest.raises(InputError, match="no language has any weight"):
        weights({}, MixtureConfig())
