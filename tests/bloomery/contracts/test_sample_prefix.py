"""Test the description of an index's first samples.

Two descriptions are equal exactly when the samples are equal. Otherwise their differences are reported.
"""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.contracts.blend import StageEntry, StageShare
from bloomery.contracts.index_manifest import ArrayEntry, DatasetEntry, IndexManifest
from bloomery.contracts.sample_prefix import how_to_keep, prefix_differences, sample_prefix

ARRAY = ArrayEntry(path="a.npy", dtype="", shape=[], digest="")


def index(*stages: tuple[int, int, dict[str, int]], **identities: str) -> IndexManifest:
    """Return an index of the datasets aa, bb and cc; each stage is (first sample, end, quotas)."""
    train = [
        DatasetEntry(
            name=name,
            language=name,
            unique_documents=1,
            unique_tokens=1,
            epochs=1,
            samples=1,
            identity=identities.get(name, name),
            documents=ARRAY,
            sample_starts=ARRAY,
            shuffle=ARRAY,
        )
        for name in ("aa", "bb", "cc")
    ]
    entries = [
        StageEntry(
            from_sample=begin,
            to_sample=end,
            spread_to=begin + sum(quotas.values()),
            datasets={
                name: StageShare(weight=0.5, quota=quota, first_sample=0, taken=0) for name, quota in quotas.items()
            },
        )
        for begin, end, quotas in stages
    ]
    rest: dict[str, Any] = {"digest": "", "sequence_length": 8, "vocabulary_size": 300, "end_of_document": 2}
    return IndexManifest(
        format=2,
        tokenizer_digest="",
        token_files=[],
        train=train,
        validation=[],
        blend_dataset=ARRAY,
        blend_sample=ARRAY,
        train_samples=stages[-1][1],
        stages=entries,
        shares={},
        **rest,
    )


WHOLE = index((0, 100, {"aa": 75, "bb": 25}))


def test_a_stage_after_the_read_samples_does_not_change_the_prefix() -> None:
    changed = index((0, 40, {"aa": 75, "bb": 25}), (40, 120, {"cc": 80}))
    for samples in (0, 1, 39, 40):
        assert sample_prefix(changed, samples) == sample_prefix(WHOLE, samples)
    assert sample_prefix(changed, 41) != sample_prefix(WHOLE, 41)
    assert sample_prefix(changed, 41).datasets.keys() == {"aa", "bb", "cc"}


def test_another_spread_to_changes_the_prefix() -> None:
    shorter = index((0, 40, {"aa": 30, "bb": 10}), (40, 100, {"aa": 60}))
    before, after = sample_prefix(WHOLE, 20), sample_prefix(shorter, 20)
    assert prefix_differences(before, after) == [
        "spread_to of blend stage 0: 100 -> 40",
        "quota of dataset 'aa' in blend stage 0, in samples: 75 -> 30 "
        "(number of other datasets whose quota differs: 1)",
    ]
    assert how_to_keep(before) == (
        "the same documents as in the old index, and these stages in index.blend: the stage {from_sample: 0, "
        "spread_to: 100} with the same weights as in the old index (new weights only in a stage with "
        "from_sample >= 20, additional samples of a longer training only in a stage with from_sample <= 100)"
    )


def test_only_documents_of_read_datasets_change_the_prefix() -> None:
    other = index((0, 100, {"aa": 75, "bb": 25}), bb="other text")
    # With quotas 75 and 25, the third sample is the first one from bb.
    assert sample_prefix(other, 2) == sample_prefix(WHOLE, 2)
    before, after = sample_prefix(WHOLE, 3), sample_prefix(other, 3)
    assert before.datasets == {"aa": "aa", "bb": "bb"}
    assert prefix_differences(before, after) == ["changed documents of the dataset bb"]


def test_an_index_that_is_too_short_differs() -> None:
    short = index((0, 30, {"aa": 75, "bb": 25}))
    assert sample_prefix(short, 30) == sample_prefix(WHOLE, 30)
    assert prefix_differences(sample_prefix(WHOLE, 50), sample_prefix(short, 50)) == [
        "the index holds 30 samples, but the training has read 50",
        "to_sample of blend stage 0: 50 -> 30",
    ]


@pytest.mark.parametrize("samples", [60, 100])
def test_how_to_keep_lists_several_stages(samples: int) -> None:
    staged = index((0, 40, {"aa": 75, "bb": 25}), (40, 100, {"aa": 30, "bb": 60}))
    text = how_to_keep(sample_prefix(staged, samples))
    assert "the stage {from_sample: 0, ...} unchanged, the stage {from_sample: 40, spread_to: 130} with the" in text
    assert f"from_sample >= {samples}, additional" in text
    assert text.endswith("with from_sample <= 130)")
