"""The table, the plan of shards, the card: the pure parts of the export."""

from __future__ import annotations

import json

import pytest
import yaml

from bloomery.base.atomic import write_json
from bloomery.base.errors import CheckFailedError, ConfigError, InputError
from bloomery.config.model import ModelConfig
from bloomery.spec.parameters import declare, parameter_count
from export.mapping.bloom import INVERSE, TABLE, check_exportable, to_canonical, to_transformers
from export.model_card import CardFacts, hub_licence, render_card
from export.verify_logits import Comparison, check
from export.write_weights import plan_shards


def test_the_mapping_is_one_to_one_for_every_declared_parameter():
    model = ModelConfig(layers=120, hidden_size=32, heads=4, sequence_length=32)
    ours = [parameter.name for parameter in declare(model, 64)]
    theirs = [to_transformers(name) for name in ours]
    assert len(set(theirs)) == len(ours) == 5 + 12 * 120
    assert [to_canonical(name) for name in theirs] == ours
    assert "transformer.h.107.self_attention.dense.bias" in theirs
    assert len(TABLE) == len(INVERSE)


@pytest.mark.parametrize("name", ["h.3.self_attention.rotary.weight", "position_embeddings.weight"])
def test_a_name_without_a_counterpart_is_refused(name):
    with pytest.raises(CheckFailedError, match="no counterpart"):
        to_transformers(name)


def test_a_network_that_transformers_would_build_differently_is_refused():
    from transformers import BloomConfig

    model = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32)
    check_exportable(model, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4))
    with pytest.raises(CheckFailedError, match=r"transformer\.h\.2\..* trained absent"):
        check_exportable(model, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=3, n_head=4))
    # The same names and shapes, and another network.
    rotary = model.model_copy(update={"positions": "rotary"})
    with pytest.raises(ConfigError, match=r"not exported yet: model\.positions rotary"):
        check_exportable(rotary, 64, BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4))


@pytest.mark.parametrize(
    ("sizes", "limit", "shards"),
    [
        ([3, 3, 3], 9, [range(0, 3)]),
        ([3, 3, 3], 6, [range(0, 2), range(2, 3)]),
        ([9, 1, 9], 5, [range(0, 1), range(1, 2), range(2, 3)]),
        ([1], 1, [range(0, 1)]),
    ],
)
def test_shards_are_filled_in_order_up_to_the_limit(sizes, limit, shards):
    assert plan_shards(sizes, limit) == shards


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(InputError):
        plan_shards([1], 0)


def comparison(difference=1e-6, logit=4.0):
    return Comparison(3, 72, difference, logit, 1.0, "the river", " runs")


@pytest.mark.parametrize(("difference", "logit", "passes"), [(1e-4, 1.0, True), (3e-4, 4.0, True), (5e-5, 0.1, True)])
def test_the_difference_is_relative_to_the_greatest_logit_above_one(difference, logit, passes):
    check(comparison(difference, logit), 1e-4, where="here")


@pytest.mark.parametrize(("difference", "logit"), [(2e-4, 1.0), (2e-4, 0.01), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_beyond_the_tolerance_or_not_a_number_fails(difference, logit):
    with pytest.raises(CheckFailedError, match=r"export\.tolerance"):
        check(comparison(difference, logit), 1e-4, where="here")


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        ({"a": "CC0-1.0", "b": "cc0-1.0"}, "cc0-1.0"),
        ({"a": "CC0-1.0", "b": "MIT"}, "other"),
        ({"a": "my own"}, "other"),
        ({"a": "unknown"}, "unknown"),
        ({}, "other"),
    ],
)
def test_the_licence_is_the_sources_when_they_agree(licences, expected):
    assert hub_licence(licences) == expected


def card_of(run):
    facts = CardFacts(
        run.stage,
        run.manifest,
        run.checkpoint.name,
        parameter_count(run.stage.model, run.manifest.vocabulary_rows),
        run.manifest.vocabulary_rows,
        comparison(),
    )
    text = render_card(facts, run.paths)
    _, header, body = text.split("---\n", 2)
    return yaml.safe_load(header), body


def test_the_card_states_what_the_run_recorded(fabricate):
    run = fabricate()
    stamp = {
        "iteration": 100,
        "consumed_samples": 1,
        "consumed_tokens": 1,
        "segment": 1,
        "time": "2026-01-01T00:00:00Z",
    }
    with (run.paths.logs / "metrics.jsonl").open("a") as handle:
        handle.write(json.dumps(stamp | {"energy_kwh": 12.5, "co2_kg": 0.7, "nodes": 2, "estimated_kwh": 1.5}) + "\n")
    header, body = card_of(run)
    assert header["language"] == ["en", "zh"]
    assert header["license"] == "cc0-1.0"
    assert header["library_name"] == "transformers"
    assert header["pipeline_tag"] == "text-generation"
    assert "code" in header["tags"]
    for fact in (
        "12,800 tokens",
        "5.4321",
        "5.2500",
        "6.1250",
        "tensor 2 x pipeline 1 x data 1",
        "| zhs | 2 |",
        "2.5e-07",
        "(2 nodes, by codecarbon): 12.5 kWh (12 % estimated), 0.7 kg CO2",
    ):
        assert fact in body, fact
    assert "ot recorded" not in body


def test_the_card_of_a_norwegian_corpus_keeps_no_as_a_language(fabricate):
    run = fabricate()
    entry = {"documents": 1, "bytes": 1, "share": 0.5, "weight": 0.5}
    write_json(run.paths.corpus / "mixture.json", {"languages": {"no": entry, "yo": {**entry, "weight": 0.0}}})
    header, _ = card_of(run)
    assert header["language"] == ["no"]


def test_a_mixture_without_its_numbers_is_named(fabricate):
    run = fabricate()
    write_json(run.paths.corpus / "mixture.json", {"languages": {"fr": {"weight": 1.0}}})
    with pytest.raises(InputError, match="'fr' has no documents, bytes, share"):
        card_of(run)


def test_what_was_not_recorded_is_said_and_not_invented(fabricate):
    run = fabricate()
    (run.paths.logs / "metrics.jsonl").unlink()
    (run.paths.corpus / "mixture.json").unlink()
    header, body = card_of(run)
    assert "language" not in header
    assert body.count("Not recorded.") == 2


def test_the_hub_library_reads_the_cards_metadata(fabricate, tmp_path):
    from huggingface_hub import ModelCard

    run = fabricate()
    facts = CardFacts(run.stage, run.manifest, "step00000100", 1, 1, comparison())
    card = ModelCard(render_card(facts, run.paths))
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.language == ["en", "zh"]
