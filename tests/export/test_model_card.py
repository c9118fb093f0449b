"""Test the model card's licence, metadata and recorded facts."""

from __future__ import annotations

import json
import math

import pytest
import yaml

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.config.stages import InitialWeights, TrainStage
from bloomery.contracts.resume_policy import saved_stage
from bloomery.spec.flops import iteration_flops
from bloomery.spec.parameters import parameter_count
from export.card.facts import CardFacts, read_run_records
from export.card.key_rows import key_rows
from export.card.training_parts import PATH_KEYS
from export.model_card import render_card
from export.proof.comparison import Comparison


def comparison(difference=1e-6, logit=4.0):
    return Comparison(3, 72, difference, logit, 1.0, {})


def card_of(run):
    facts = CardFacts(
        run.stage,
        run.manifest,
        run.checkpoint.name,
        parameter_count(run.stage.model, run.manifest.vocabulary_rows),
        run.manifest.vocabulary_rows,
        comparison(),
        {"tokenizer": "1" * 64},
    )
    text = render_card(facts, read_run_records(run.paths, run.manifest.iteration))
    _, header, body = text.split("---\n", 2)
    return yaml.safe_load(header), body


def test_the_card_states_the_recorded_facts_of_the_run(fabricate):
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
        "(all segments, 2 nodes, recorded by codecarbon) | 12.5 kWh (12 % estimated), 0.7 kg CO2",
    ):
        assert fact in body, fact


@pytest.mark.parametrize(
    ("curriculum", "skipped", "samples", "length"),
    [(None, 0, 400, 16), (None, 100, 300, 16), ({"start_length": 8, "samples": 10**6}, 0, 400, 8)],
    ids=["all samples", "skipped samples", "a curriculum that has just begun"],
)
def test_the_compute_is_that_of_the_samples_that_were_trained_on(fabricate, curriculum, skipped, samples, length):
    run = fabricate()
    model = run.stage.model.model_copy(update={"sequence_length": 16})
    run.stage = run.stage.model_copy(update={"model": model})
    training = saved_stage(run.manifest).training.model_dump() | {"curriculum": curriculum, "train_samples": 400}
    update = {"config": run.manifest.config | {"training": training}, "consumed_samples": 400}
    run.manifest = run.manifest.model_copy(update={**update, "skipped_samples": skipped})
    _, body = card_of(run)
    flops = iteration_flops(model, run.manifest.vocabulary_rows, samples, recomputed=False, sequence_length=length)
    assert f"| compute | {flops:.3g} FLOPs of the model, without recomputation |" in body


def test_the_language_code_no_of_norwegian_is_not_read_as_false(fabricate):
    run = fabricate()
    entry = {"documents": 1, "bytes": 1, "share": 0.5, "weight": 0.5}
    write_json(run.paths.corpus / "mixture.json", {"languages": {"no": entry, "yo": {**entry, "weight": 0.0}}})
    header, _ = card_of(run)
    assert header["language"] == ["no"]


def test_a_mixture_without_its_numbers_is_refused(fabricate):
    run = fabricate()
    write_json(run.paths.corpus / "mixture.json", {"languages": {"fr": {"weight": 1.0}}})
    with pytest.raises(InputError, match="'fr' lacks the numbers 'documents', 'bytes', 'share'"):
        card_of(run)


def test_facts_that_the_run_did_not_record_are_left_out(fabricate):
    run = fabricate()
    (run.paths.logs / "metrics.jsonl").unlink()
    (run.paths.corpus / "mixture.json").unlink()
    header, body = card_of(run)
    assert {"language", "model-index"}.isdisjoint(header)
    titles = [line for line in body.splitlines() if line.startswith("## ")]
    assert "## Network" in titles
    assert {"## Evaluation", "## Hardware, time and energy", "## Corpus"}.isdisjoint(titles)
    assert "png" not in body


def test_the_hub_library_reads_the_cards_metadata(fabricate, tmp_path):
    from huggingface_hub import ModelCard

    run = fabricate()
    facts = CardFacts(run.stage, run.manifest, "step00000100", 1, 1, comparison())
    card = ModelCard(render_card(facts, read_run_records(run.paths, 100)))
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.language == ["en", "zh"]
    found = {result.dataset_config: result.metric_value for result in card.data.eval_results}
    assert found == {"en": pytest.approx(math.exp(5.25), rel=1e-5), "zhs": pytest.approx(math.exp(6.125), rel=1e-5)}
    assert card.data.model_name == "tiny-bloom"


HOSTILE = "CC-BY | x\n# Title\n\n---\n<script>alert(1)</script> [a](http://b) `c` \x1b[31m"


def test_names_of_licences_languages_and_sets_are_shown_literally(fabricate):
    run = fabricate()
    _, plain = card_of(run)
    run.stage = run.stage.model_copy(update={"licences": {"sample": HOSTILE}})
    mixture = json.loads((run.paths.corpus / "mixture.json").read_text())
    mixture["languages"][HOSTILE] = mixture["languages"].pop("en")
    write_json(run.paths.corpus / "mixture.json", mixture)
    metrics = run.paths.logs / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"en"', json.dumps(HOSTILE)))
    run.manifest = run.manifest.model_copy(update={"versions": {HOSTILE: HOSTILE}})
    metadata, body = card_of(run)
    assert metadata["license"] == "other"
    assert HOSTILE in metadata["language"]
    # Each of the four names is the literal text of one cell, and no other markup appears.
    assert "<script>" not in body
    shown = r"CC-BY \| x # Title --- &lt;script&gt;alert(1)&lt;/script&gt; \[a\](http://b) \`c\` \\x1b\[31m"
    assert f"| sample | {shown} |" in body
    assert f"| {shown} | 5 |" in body
    assert f"| {shown} | 5.2500 |" in body
    assert f"| software | {shown} {shown} |" in body
    assert body.count("\n") == plain.count("\n")
    assert [line for line in body.splitlines() if line.startswith("# ")] == ["# tiny-bloom"]


@pytest.mark.parametrize("damage", [b"\0\0\0\0", b'{"iteration": 100, "loss": 1e999}'])
def test_a_damaged_line_of_the_metrics_does_not_block_the_card(fabricate, damage, capsys):
    run = fabricate()
    plain = card_of(run)
    metrics = run.paths.logs / "metrics.jsonl"
    metrics.write_bytes(damage + b"\n" + metrics.read_bytes())
    assert card_of(run) == plain
    assert "1 damaged line is skipped; the first is line 1: not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(("validated", "name"), [(100, "perplexity of en"), (90, "after iteration 90 of 100")])
def test_perplexities_of_an_earlier_iteration_are_named_as_such(fabricate, validated, name):
    from huggingface_hub import ModelCard

    run = fabricate()
    metrics = run.paths.logs / "metrics.jsonl"
    step, validation = map(json.loads, metrics.read_text().splitlines())
    records = [step | {"iteration": validated}, validation | {"iteration": validated}, step | {"iteration": 100}]
    metrics.write_text("".join(json.dumps(record) + "\n" for record in records[: 2 if validated == 100 else 3]))
    facts = CardFacts(run.stage, run.manifest, "step00000100", 1, 1, comparison())
    card = ModelCard(render_card(facts, read_run_records(run.paths, 100)))
    first = card.data.eval_results[0]
    assert (first.dataset_config, first.metric_type) == ("en", "perplexity")
    assert first.metric_value == pytest.approx(math.exp(5.25), rel=1e-5)
    assert first.metric_name.endswith(name)
    assert ("after iteration" in first.metric_name) == (validated != 100)


def test_the_card_names_no_path_of_the_machine(fabricate):
    run = fabricate()
    home = "/home/alice"
    stage = saved_stage(run.manifest)
    training = stage.training.model_copy(update={"initial_checkpoint": f"{home}/imports/x"})
    initial = InitialWeights(digest="2" * 64, source=f"{home}/imports/bloom-560m")
    saved = stage.model_copy(update={"training": training, "initial": initial})
    run.manifest = run.manifest.model_copy(update={"config": saved.model_dump(mode="json")})
    sections = {
        "judge": {
            "language_id": {"min_share": 0.6, "fallback_model": f"{home}/a.bin", "fasttext_model": f"{home}/b.ftz"},
            "detector": {"fasttext_model": f"{home}/c.bin"},
        },
        "dedup": {"dedup": {"exact": True, "against": [f"{home}/runs/old"]}},
        "tokenizer": {"tokenizer": {"vocabulary_size": 290, "existing": f"{home}/tokenizer"}},
        "index": {"seed": 1, "paths": [f"{home}/texts/*.jsonl"]},
    }
    for name, section in sections.items():
        write_json(run.paths.config / f"{name}.json", section)
    header, body = card_of(run)
    assert home not in body
    assert home not in json.dumps(header)
    assert "initial_checkpoint" not in body
    assert "The training started with the weights of `bloom-560m`." in body
    assert "| judge | language_id.min_share | 0.6 |" in body.replace("\\", "")


def string_keys(schema, definitions, prefix=""):
    """Yield the keys whose values are free texts, without choices and patterns."""
    schema = definitions[schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    for inner in schema.get("anyOf", []):
        yield from string_keys(inner, definitions, prefix)
    if schema.get("type") == "array":
        yield from string_keys(schema["items"], definitions, prefix)
    for name, value in schema.get("properties", {}).items():
        yield from string_keys(value, definitions, f"{prefix}.{name}" if prefix else name)
    if schema.get("type") == "string" and not {"enum", "const", "pattern"} & schema.keys():
        yield prefix


def test_every_free_text_among_the_keys_of_the_training_is_left_out():
    schema = TrainStage.model_json_schema()
    found = {key for key in string_keys(schema, schema["$defs"]) if key.startswith(("seed", "model", "training"))}
    assert found == PATH_KEYS


def test_the_card_lists_the_seed_and_every_other_key_of_the_training(fabricate):
    run = fabricate()
    saved = saved_stage(run.manifest).model_copy(update={"seed": 4711})
    run.manifest = run.manifest.model_copy(update={"config": saved.model_dump(mode="json")})
    _, body = card_of(run)
    assert "| seed | 4711 |" in body
    table = body.split("<summary>All keys of the training</summary>")[1].split("</details>")[0].replace("\\", "")
    values = saved.model_dump(mode="json", include={"seed", "model", "training"})
    for key, value in key_rows(values):
        if key not in PATH_KEYS:
            assert f"| {key} | {value} |" in table, key
