"""Test blend stages in a real index: samples that were already read do not change, nor do validation sets."""

from __future__ import annotations

import numpy as np
import pytest

from bloomery.base.atomic import write_json
from bloomery.contracts.index import open_array
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.sample_prefix import prefix_differences, sample_prefix
from bloomery.contracts.sample_reader import SampleReader
from data_prep.index.verify_index import verify_index

READ = 300


def tokens(run, samples):
    reader = SampleReader(run.index)
    return np.stack([reader.train(number) for number in range(samples)])


def validation(run):
    """Return the tokens of every validation set, as training reads them."""
    reader = SampleReader(run.index)
    return {
        name: [reader.validation(name, number).tolist() for number in range(reader.validation_samples(name))]
        for name in reader.validation_names
    }


def changed(weights=None, samples=700):
    """Return settings that change the weights of a run of 700 samples at sample READ."""
    weights = weights or {"hi": 3, "en": 1}
    return {"train_samples": samples, "blend": [{"spread_to": 700}, {"from_sample": READ, "weights": weights}]}


@pytest.mark.parametrize("samples", [700, 900])
def test_samples_before_a_change_of_weights_keep_every_token(own_run, samples):
    before, read = read_index_manifest(own_run.index / "index.json"), tokens(own_run, READ)
    own_run.build(**changed(samples=samples))
    after = read_index_manifest(own_run.index / "index.json")
    assert np.array_equal(tokens(own_run, READ), read)
    assert sample_prefix(before, READ) == sample_prefix(after, READ)
    assert sample_prefix(before, READ + 1) != sample_prefix(after, READ + 1)
    assert verify_index(own_run.index)["train_samples"] == samples
    first, second = after.stages
    assert {name: share.taken for name, share in second.datasets.items()} == {
        "en": (samples - READ) // 4,
        "hi": 3 * (samples - READ) // 4,
    }
    assert second.datasets["hi"].first_sample == first.datasets["hi"].taken
    names = [entry.name for entry in after.train]
    blended = open_array(own_run.index, after.blend_dataset)[READ:]
    assert {names[number] for number in np.unique(blended)} == {"en", "hi"}


def test_other_weights_from_the_beginning_change_the_samples(own_run):
    before = read_index_manifest(own_run.index / "index.json")
    own_run.build(blend=[{"weights": {"hi": 3, "en": 1}}])
    found = prefix_differences(
        sample_prefix(before, 1), sample_prefix(read_index_manifest(own_run.index / "index.json"), 1)
    )
    assert found[0].startswith("quota of dataset 'code' in blend stage 0, in samples: 35 -> 0")


def test_the_order_of_megatron_depends_on_the_number_of_samples(own_run):
    own_run.build(order="megatron")
    before = sample_prefix(read_index_manifest(own_run.index / "index.json"), READ)
    own_run.build(order="megatron", **changed())
    after = sample_prefix(read_index_manifest(own_run.index / "index.json"), READ)
    assert before.stages == after.stages
    assert prefix_differences(before, after) == ["changed documents of the datasets code, en, fr, hi, zhs"]


def test_another_seed_changes_the_documents_already_read(own_run):
    before = sample_prefix(read_index_manifest(own_run.index / "index.json"), READ)
    own_run.build(seed=8)
    after = sample_prefix(read_index_manifest(own_run.index / "index.json"), READ)
    assert prefix_differences(before, after) == ["changed documents of the datasets code, en, fr, hi, zhs"]


def test_validation_sets_do_not_depend_on_weights_stages_or_length(own_run):
    fixed = validation(own_run)
    assert fixed.keys() == {"code", "en", "fr", "hi", "zhs"}
    own_run.build(**changed())
    assert validation(own_run) == fixed
    own_run.build(train_samples=2)
    assert validation(own_run) == fixed, "validation sets stay although training reads at most two languages"
    own_run.build(blend=[{"weights": {"fr": 1}}])
    assert validation(own_run) == fixed, "validation sets stay although training reads only French"
    weights = {"en": 0.01, "fr": 0.9, "hi": 0.03, "zhs": 0.03, "code": 0.03}
    write_json(own_run.mixture, {"languages": {code: {"weight": weight} for code, weight in weights.items()}})
    own_run.build()
    assert validation(own_run) == fixed


def test_a_later_stage_may_use_a_language_that_the_mixture_leaves_out(own_run):
    write_json(own_run.mixture, {"languages": {"en": {"weight": 1.0}, "fr": {"weight": 0.0}}})
    own_run.build()
    before = sample_prefix(read_index_manifest(own_run.index / "index.json"), READ)
    own_run.build(**changed(weights={"fr": 1, "zhs": 1}))
    after = read_index_manifest(own_run.index / "index.json")
    assert sample_prefix(after, READ) == before
    assert {name: share.taken for name, share in after.stages[1].datasets.items()} == {"fr": 200, "zhs": 200}
    assert after.languages["fr"].weight == 0
    verify_index(own_run.index)
