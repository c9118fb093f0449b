"""Test blend stages: exact counts, and a change of weights during a run that neither repeats nor loses a sample."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from bloomery.config.stages import IndexStage
from bloomery.contracts.blend import StageEntry
from data_prep.formats.mixture import Mixture
from data_prep.index.order import samples_in
from data_prep.index.plan_blend_stages import plan_stages, totals
from data_prep.index.write_blend import blend

LENGTH = 10
MIXTURE = Mixture({"en": 0.75, "fr": 0.25, "sw": 0.0}, {"en": {"books": 0.25, "web": 0.5, "mail": 0.0}}, None)
TOKENS = {"en": {"en/books": 500, "en/mail": 700, "en/web": 2000}, "fr": {"fr": 900}, "sw": {"sw": 300}}
WEIGHT = st.floats(0.01, 10)


def index_stage(samples: int, *stages: dict[str, Any]) -> IndexStage:
    return IndexStage.model_validate(
        {
            "sequence_length": LENGTH,
            "train_samples": samples,
            "validation_samples": 1,
            "validation_share": 0.1,
            "seed": 1,
            "blend": list(stages),
        }
    )


def counts(stage: StageEntry) -> dict[str, int]:
    return {name: share.taken for name, share in stage.datasets.items()}


def samples_of(stages: list[StageEntry], seen: list[str] | None = None) -> list[tuple[str, int]]:
    """Return (dataset, sample) of every global sample. By default, datasets are numbered in the order of names."""
    names = seen or sorted(totals(stages))
    return [(names[n], int(k)) for window in blend(stages, names) for n, k in zip(*window, strict=True)]


def assert_no_gap_and_no_repeat(found: list[tuple[str, int]]) -> None:
    for name in {name for name, _ in found}:
        own = [sample for dataset, sample in found if dataset == name]
        assert own == list(range(len(own)))


def test_without_stages_the_mixture_weighs_the_whole_training() -> None:
    (only,) = plan_stages(MIXTURE, TOKENS, index_stage(80))
    assert (only.from_sample, only.to_sample, only.spread_to) == (0, 80, 80)
    assert counts(only) == {"en/books": 20, "en/web": 40, "fr": 20}
    assert {name: share.weight for name, share in only.datasets.items()} == pytest.approx(
        {"en/books": 0.25, "en/web": 0.5, "fr": 0.25}
    )


def test_each_stage_has_the_exact_counts_of_its_weights() -> None:
    first, second, third = plan_stages(
        MIXTURE,
        TOKENS,
        index_stage(
            300,
            {"spread_to": 200},
            {"from_sample": 100, "weights": {"en": 1, "sw": 1}},
            {"from_sample": 160, "weights": {"en/mail": 3, "fr": 4}},
        ),
    )
    assert (first.to_sample, first.spread_to, second.spread_to) == (100, 200, 160)
    assert {name: (share.quota, share.taken) for name, share in first.datasets.items()} == {
        "en/books": (50, 25),
        "en/web": (100, 50),
        "fr": (50, 25),
    }
    # The weight of a language is divided among its datasets as in the mixture, where mail has no weight.
    assert counts(second) == {"en/books": 10, "en/web": 20, "sw": 30}
    assert counts(third) == {"en/mail": 60, "fr": 80}
    assert {name: share.first_sample for name, share in third.datasets.items()} == {"en/mail": 0, "fr": 25}
    assert totals([first, second, third]) == {"en/books": 35, "en/web": 70, "fr": 105, "sw": 30, "en/mail": 60}


@given(
    planned=st.integers(2, 400),
    at=st.fractions(0, 1),
    longer=st.integers(0, 200),
    weights=st.dictionaries(st.sampled_from(["en", "fr", "sw"]), WEIGHT, min_size=1),
    mixed=st.tuples(WEIGHT, WEIGHT, WEIGHT),
)
def test_a_change_of_weights_keeps_the_samples_already_read(
    planned: int, at: Fraction, longer: int, weights: dict[str, float], mixed: tuple[float, float, float]
) -> None:
    mixture = Mixture({"en": mixed[0] + mixed[1], "fr": mixed[2]}, {"en": {"books": mixed[0], "web": mixed[1]}}, None)
    change = max(1, int(at * (planned - 1)))
    before = samples_of(plan_stages(mixture, TOKENS, index_stage(planned)))
    stages = plan_stages(
        mixture,
        TOKENS,
        index_stage(planned + longer, {"spread_to": planned}, {"from_sample": change, "weights": weights}),
    )
    after = samples_of(stages)
    assert len(after) == planned + longer
    assert after[:change] == before[:change]
    assert_no_gap_and_no_repeat(after)
    whole = sum(map(Fraction, weights.values()))
    for language, weight in weights.items():
        read = sum(share.taken for name, share in stages[1].datasets.items() if name.split("/")[0] == language)
        assert abs(read - Fraction(weight) * (planned + longer - change) / whole) < 1


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_longer_training_continues_after_the_old_end(planned: int, more: int) -> None:
    before = samples_of(plan_stages(MIXTURE, TOKENS, index_stage(planned)))
    longer = plan_stages(MIXTURE, TOKENS, index_stage(planned + more, {}, {"from_sample": planned}))
    after = samples_of(longer)
    assert after[:planned] == before
    assert_no_gap_and_no_repeat(after)


@given(
    cap=st.floats(0.5, 4),
    first=st.integers(1, 200),
    second=st.integers(1, 200),
    weights=st.dictionaries(st.sampled_from(["en/books", "en/mail", "en/web", "fr", "sw"]), WEIGHT, min_size=1),
)
def test_the_cap_on_epochs_applies_to_all_stages_together(
    cap: float, first: int, second: int, weights: dict[str, float]
) -> None:
    mixture = Mixture(MIXTURE.languages, MIXTURE.sources, cap)
    stage = index_stage(first + second, {"spread_to": first + 50}, {"from_sample": first, "weights": weights})
    limits = {
        name: samples_in(int(Fraction(cap) * tokens), LENGTH) for own in TOKENS.values() for name, tokens in own.items()
    }
    if first + 50 > sum(limits[name] for name in ("en/books", "en/web", "fr")):
        with pytest.raises(InputError, match=r"only \d+ samples are available: .* epochs .* of the 3400 tokens in"):
            plan_stages(mixture, TOKENS, stage)
        return
    (read,) = plan_stages(mixture, TOKENS, index_stage(first, {"spread_to": first + 50}))
    left = {name: limits[name] - counts(read).get(name, 0) for name in weights}
    if second > sum(left.values()):
        with pytest.raises(InputError, match="minus the samples of earlier stages"):
            plan_stages(mixture, TOKENS, stage)
        return
    stages = plan_stages(mixture, TOKENS, stage)
    for name, count in totals(stages).items():
        assert count <= limits[name]
    assert sum(totals(stages).values()) == first + second
    assert_no_gap_and_no_repeat(samples_of(stages))


def test_samples_beyond_a_cap_go_to_other_datasets_and_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    mixture = Mixture(MIXTURE.languages, MIXTURE.sources, 1.0)
    stages = plan_stages(
        mixture, TOKENS, index_stage(150, {}, {"from_sample": 100, "weights": {"en/books": 1, "fr": 1}})
    )
    # One epoch of en/books has 49 samples, and stage 0 reads 25 of them. Stage 1 reads the other 24 instead of 25.
    assert counts(stages[0])["en/books"] == 25
    assert counts(stages[1]) == {"en/books": 24, "fr": 26}
    assert (
        "index.blend[1]: the limit corpus.mixture.max_epochs (1) reduces the share of these datasets below their "
        "weight: en/books" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (
            {"de": 1},
            "no text in the language or dataset 'de'; expected: a language or dataset that has text: en, "
            "en/books, en/mail, en/web, fr, sw",
        ),
        ({"fr": 1, "en/wiki": 0}, "no text in the language or dataset 'en/wiki'"),
        ({"en": 1, "en/web": 1}, "weights are given for 'en' and 'en/web'; expected: a weight for the language 'en'"),
    ],
)
def test_weights_for_unknown_or_overlapping_names_are_refused(weights: dict[str, float], says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_stages(MIXTURE, TOKENS, index_stage(10, {}, {"from_sample": 5, "weights": weights}))
    assert str(caught.value).startswith("index.blend[1].weights: ")
    assert says in str(caught.value)


def test_a_language_without_weight_in_the_mixture_needs_weights_per_dataset() -> None:
    mixture = Mixture({"en": 0.0, "fr": 1.0}, {"en": {"books": 0.0, "web": 0.0}}, None)
    with pytest.raises(InputError, match=r"no dataset of 'en' has a weight above 0 in the mixture.*expected: weights"):
        plan_stages(mixture, TOKENS, index_stage(10, {"weights": {"en": 1}}))
    (only,) = plan_stages(mixture, TOKENS, index_stage(10, {"weights": {"en/web": 1, "sw": 1}}))
    assert counts(only) == {"en/web": 5, "sw": 5}


def test_a_mixture_without_weight_for_any_text_is_refused() -> None:
    with pytest.raises(InputError, match="no document to train on"):
        plan_stages(Mixture({"zu": 1.0}, {}, None), TOKENS, index_stage(10))


def test_ties_are_sorted_by_the_names_of_datasets() -> None:
    # "zh-TW" sorts before "zh/web", although the language zh sorts before zh-TW.
    tokens = {"zh": {"zh/web": 99}, "zh-TW": {"zh-TW": 99}}
    mixture = Mixture({"zh": 0.5, "zh-TW": 0.5}, {"zh": {"web": 0.5}}, None)
    stages = plan_stages(mixture, tokens, index_stage(5, {"spread_to": 8}))
    found = samples_of(stages, ["zh/web", "zh-TW"])
    assert [name for name, _ in found] == ["zh-TW", "zh/web", "zh-TW", "zh/web", "zh-TW"]
    assert counts(stages[0]) == {"zh-TW": 3, "zh/web": 2}
    assert np.bincount([name == "zh-TW" for name, _ in found]).tolist() == [2, 3]
