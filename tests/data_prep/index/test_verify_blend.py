"""Test that `verify_index` finds a blend that differs from its stages, and stages that contradict their quotas."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError
from data_prep.index.verify_index import verify_index

STAGES = {"blend": [{"spread_to": 700}, {"from_sample": 300, "weights": {"hi": 3, "en": 1}}]}


@pytest.fixture
def staged(own_run):
    own_run.build(**STAGES)
    assert verify_index(own_run.index)["train_samples"] == 700
    return own_run


def manifest(run):
    return json.loads((run.index / "index.json").read_text())


def swap(run, first, second):
    """Exchange two global samples and update the digests. Every dataset keeps all of its samples."""
    index = manifest(run)
    for key in ("blend_dataset", "blend_sample"):
        path = run.index / index[key]["path"]
        values = np.load(path)
        values[[first, second]] = values[[second, first]]
        np.save(path, values)
        index[key]["digest"] = digest_file(path)
    (run.index / "index.json").write_text(json.dumps(index))


def test_samples_moved_to_another_stage_are_found(staged):
    swap(staged, 299, 300)
    with pytest.raises(
        CheckFailedError, match=r"stage 0 of the blend reads \d+ samples of '\w+'.*as index.json states"
    ):
        verify_index(staged.index)


def test_samples_of_a_dataset_that_is_not_in_the_stage_are_found(staged):
    index = manifest(staged)
    del index["stages"][1]["datasets"]["en"]
    index["stages"][1]["datasets"]["hi"] |= {"quota": 400, "taken": 400}
    (staged.index / "index.json").write_text(json.dumps(index))
    with pytest.raises(CheckFailedError, match=r"stage 1 of the blend reads 100 samples of 'en'.*expected: 0 samples"):
        verify_index(staged.index)


@pytest.mark.parametrize(
    ("stage", "dataset", "change", "what"),
    [
        (0, None, {"from_sample": 1}, "stage 0 of the blend has from_sample 1, to_sample 300 and spread_to 700"),
        (0, None, {"to_sample": 299}, "stage 0 of the blend takes 120 samples of 'en' from sample 0"),
        (1, None, {"spread_to": 699}, "stage 1 of the blend has from_sample 300, to_sample 700 and spread_to 699"),
        (1, None, {"spread_to": 701}, "quotas of stage 1 of the blend sum to 400.*expected: 401"),
        (1, None, {"to_sample": 300}, "stage 1 of the blend has from_sample 300, to_sample 300"),
        (1, "en", {"quota": 101}, "quotas of stage 1 of the blend sum to 401"),
        (0, "en", {"taken": 121}, "takes 121 samples of 'en' from sample 0.*expected: 120 samples from sample 0, as"),
        (1, "en", {"first_sample": 119}, "from sample 119.*expected: 100 samples from sample 120, as"),
    ],
)
def test_stages_that_contradict_themselves_are_found(staged, stage, dataset, change, what):
    index = manifest(staged)
    place = index["stages"][stage]
    if dataset is not None:
        place = place["datasets"][dataset]
    place |= change
    (staged.index / "index.json").write_text(json.dumps(index))
    with pytest.raises(CheckFailedError, match=what):
        verify_index(staged.index)


def test_stages_with_fewer_samples_than_the_training_are_found(staged):
    index = manifest(staged)
    del index["stages"][1]
    (staged.index / "index.json").write_text(json.dumps(index))
    with pytest.raises(CheckFailedError, match=r"stages of the blend contain 300 samples.*expected: 700"):
        verify_index(staged.index)
