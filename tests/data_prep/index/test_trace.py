"""Test `trace`, which reports the documents and texts of the samples of an iteration."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from bloomery.base.atomic import write_json
from bloomery.base.errors import BloomeryError, ConfigError, InputError
from bloomery.config.stages import TrainStage, write_stage
from bloomery.contracts.checkpoint import CheckpointManifest, step_name, write_manifest
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.sample_reader import SampleRangeError, SampleReader
from bloomery.contracts.tokenizer import load_tokenizer
from bloomery.spec.batch import steps
from data_prep.formats.shard import read_table
from data_prep.index.trace import Tracer
from data_prep.index.trace_cli import app
from training.guards.incident import Incident, texts_path, write_incident
from training.guards.incident_texts import IncidentTexts

pytestmark = pytest.mark.slow

PARALLEL = {"tensor": 2, "pipeline": 3, "data": 2}


def make_stage(**batch):
    sizes = {"micro_batch_size": 2, "global_batch_size": 16, "rampup": {"start": 8, "increment": 4, "samples": 64}}
    return TrainStage.model_validate(
        {
            "name": "test",
            "seed": 7,
            "model": {"layers": 6, "hidden_size": 32, "heads": 4, "sequence_length": 16},
            "training": {
                "train_samples": 700,
                "parallel": PARALLEL,
                "batch": sizes | batch,
                "optimizer": {"learning_rate": 0.01},
            },
        }
    )


def configure(run, stage):
    paths = RunPaths(run.folder)
    write_json(paths.config / "parts.json", list(run.parts))
    write_stage(paths.config / "train.json", stage)
    return paths


def write_metrics(paths, stage, iterations):
    lines = []
    for step in steps(stage.training.batch, 700):
        if step.iteration > iterations:
            break
        values = dict.fromkeys(MetricsRecord.model_fields, 0) | {
            "time": "2026-11-21T12:00:00Z",
            "mfu": None,
            "trust_ratios": None,
        }
        values |= {"total_iterations": 99, "sequence_length": 16}
        values |= {"iteration": step.iteration, "global_batch_size": step.global_batch_size}
        values |= {"consumed_samples": step.consumed_samples + step.global_batch_size, "loss": 3 + step.iteration / 8}
        lines.append(MetricsRecord.model_validate(values).model_dump_json())
    paths.logs.mkdir(parents=True)
    (paths.logs / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


@pytest.fixture(scope="module")
def paths(hostile_run, tmp_path_factory):
    """Make a run of 12 processes whose first 20 iterations are trained."""
    copy = tmp_path_factory.mktemp("trace") / "run"
    shutil.copytree(hostile_run.folder, copy)
    run = type(hostile_run)(copy, hostile_run.parts)
    made = configure(run, make_stage())
    write_metrics(made, make_stage(), 20)
    return made


def call(paths, *words):
    result = CliRunner().invoke(app, [str(paths.run), *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def traced(paths, *words):
    return json.loads(call(paths, *words, "--json"))


def test_traced_samples_have_the_tokens_and_texts_of_the_documents_in_the_shards(paths, hostile_run):
    reader, tokenizer = SampleReader(paths.index), load_tokenizer(paths.tokenizer / "tokenizer.json")
    tokenizer.encode_special_tokens = True
    rows = {part: read_table(hostile_run.clean(part)).to_pylist() for part in hostile_run.parts}
    found = traced(paths, "--samples", "0:700")
    assert [sample["sample"] for sample in found["samples"]] == list(range(700))
    epochs = Counter()
    for sample in found["samples"]:
        tokens = []
        for document in sample["documents"]:
            row = rows[document["shard"]][document["row"]]
            assert (row["id"], row["source"], row["language"]) == (document["id"], "s", sample["language"])
            whole = [*tokenizer.encode(row["text"], add_special_tokens=False).ids, reader.end_of_document]
            assert document["tokens"] == len(whole)
            own = whole[document["begin"] : document["end"]]
            text = own[:-1] if document["end"] == len(whole) else own
            assert document["text"] == tokenizer.decode(text, skip_special_tokens=False)
            assert document["text_matches_shard"] is True
            tokens += own
            epochs[document["epoch"]] += 1
        assert tokens == reader.train(sample["sample"]).tolist()
    assert epochs[1] > 0
    assert epochs[2] > 0
    assert max(epochs) <= max(entry.epochs for entry in reader.manifest.train) + 1


def test_ranks_partition_the_batch_and_ranks_of_a_replica_read_the_same_samples(paths):
    batch = traced(paths, "--iteration", 7, "--text", "none")
    replica_of = {sample["sample"]: sample["replica"] for sample in batch["samples"]}
    assert list(replica_of) == list(range(batch["iteration"]["first_sample"], max(replica_of) + 1))
    read = {}
    for rank in range(12):
        found = traced(paths, "--iteration", 7, "--rank", rank, "--text", "none")
        place = found["rank"]["place"]
        assert (place["pipeline"], place["data"], place["tensor"]) == (rank // 4, rank // 2 % 2, rank % 2)
        assert found["rank"]["holds_data"] is (rank // 4 != 1)
        samples = [sample["sample"] for sample in found["samples"]]
        assert read.setdefault(place["data"], samples) == samples
        assert {replica_of[sample] for sample in samples} == {place["data"]}
    assert sorted(read[0] + read[1]) == list(replica_of)
    assert read[0][:4] == [min(replica_of) + offset for offset in (0, 1, 4, 5)], (
        "replicas take micro-batches of two samples in turn"
    )


def test_traced_iterations_agree_with_the_log(paths):
    for step in list(steps(make_stage().training.batch, 700))[::5]:
        found = traced(paths, "--iteration", step.iteration, "--text", "none")["iteration"]
        assert (found["first_sample"], found["samples"]) == (step.consumed_samples, step.global_batch_size)
        trained = step.iteration <= 20
        assert (found["recorded"], found["agrees"]) == (trained, True if trained else None)
        assert found["loss"] == (3 + step.iteration / 8 if trained else None)


def test_a_traced_sample_names_its_iteration(paths):
    for sample in traced(paths, "--samples", "0:300", "--text", "none")["samples"][::17]:
        found = traced(paths, "--iteration", sample["iteration"], "--text", "none")["samples"]
        assert sample in found


def test_the_record_of_training_overrides_a_configuration_changed_since(paths, tmp_path):
    shutil.copytree(paths.run, tmp_path / "run")
    changed = RunPaths(tmp_path / "run")
    write_stage(changed.config / "train.json", make_stage(global_batch_size=8, rampup=None))
    before = traced(paths, "--iteration", 12, "--text", "none")["iteration"]
    found = traced(changed, "--iteration", 12, "--text", "none")
    assert found["iteration"]["agrees"] is False
    assert (found["iteration"]["first_sample"], found["iteration"]["samples"]) == (
        before["first_sample"],
        before["samples"],
    )
    assert found["iteration"]["planned_first_sample"] == 88
    assert "configuration was changed after" in found["notes"][0]
    assert (
        "not trained yet (the last trained iteration is 20)"
        in traced(paths, "--iteration", 21, "--text", "none")["notes"][0]
    )


def test_trace_reports_an_index_or_a_layout_changed_since_the_last_checkpoint(own_run):
    paths = configure(own_run, make_stage())
    reader = SampleReader(paths.index)
    manifest = CheckpointManifest(
        identity="x",
        prefix=sample_prefix(reader.manifest, 84),
        config={},
        iteration=8,
        consumed_samples=84,
        consumed_tokens=84 * 16,
        tensor_parallel=2,
        pipeline_parallel=3,
        data_parallel=2,
        vocabulary_size=400,
        vocabulary_rows=512,
        layers=8,
        versions={},
        files={},
    )
    folder = paths.checkpoints / step_name(8)
    folder.mkdir(parents=True)
    write_manifest(folder, manifest)
    assert traced(paths, "--samples", "0:9", "--text", "none")["notes"] == []
    write_manifest(folder, manifest.model_copy(update={"data_parallel": 4}))
    (note,) = traced(paths, "--samples", "0:9", "--text", "none")["notes"]
    assert "= 2 x 3 x 4 processes, but the configuration has 2 x 3 x 2" in note
    write_manifest(folder, manifest)
    own_run.build(seed=8)
    (note,) = traced(paths, "--samples", "0:9", "--text", "none")["notes"]
    assert note.startswith(
        "the index was changed since the checkpoint of iteration 8 was saved (changed documents of the datasets code"
    )


def test_validation_sets_are_traced_too(paths):
    reader = SampleReader(paths.index)
    for name in reader.validation_names:
        found = traced(paths, "--validation", name)
        assert found["count"] == reader.validation_samples(name)
        for sample in found["samples"]:
            assert (sample["language"], sample["iteration"], sample["replica"]) == (name, None, None)
            tokens = sum(document["end"] - document["begin"] for document in sample["documents"])
            assert tokens == reader.sequence_length + 1
            assert all(document["text_matches_shard"] for document in sample["documents"])


def test_the_json_schema_is_stable(paths):
    found = traced(paths, "--iteration", 3, "--rank", 1)
    assert list(found) == ["run", "index", "iteration", "rank", "validation", "notes", "count", "datasets", "samples"]
    assert list(found["iteration"]) == [
        "iteration", "first_sample", "samples", "spans", "planned_first_sample", "planned_samples",
        "planned_spans", "recorded", "loss", "agrees",
    ]  # fmt: skip
    assert list(found["samples"][0]) == [
        "sample", "dataset", "language", "dataset_sample", "iteration", "replica", "documents",
    ]  # fmt: skip
    assert list(found["samples"][0]["documents"][0]) == [
        "id", "source", "language", "shard", "row", "epoch", "begin", "end", "tokens", "text", "text_matches_shard",
    ]  # fmt: skip
    assert sum(found["datasets"].values()) == found["count"] == len(found["samples"])


def test_a_shard_that_was_changed_or_removed_is_reported(paths, tmp_path):
    shutil.copytree(paths.run, tmp_path / "run")
    changed = RunPaths(tmp_path / "run")
    shutil.rmtree(changed.corpus / "clean/s")
    documents = traced(changed, "--samples", "0")["samples"][0]["documents"]
    assert all(document["text_matches_shard"] is None and document["text"] for document in documents)
    shards = paths.corpus / "clean/s"
    (changed.corpus / "clean/s").mkdir()
    for mine, other in (("00000", "00002"), ("00002", "00000")):
        for suffix in ("parquet", "json"):
            shutil.copy(shards / f"{other}.{suffix}", changed.corpus / f"clean/s/{mine}.{suffix}")
    documents = traced(changed, "--samples", "0")["samples"][0]["documents"]
    assert not any(document["text_matches_shard"] for document in documents)


def test_the_printed_trace_escapes_control_characters_and_limits_the_samples(paths):
    said = call(paths, "--iteration", 9, "--rank", 5, "--text", "full")
    head = " ".join(said.split("\n\n")[0].split())
    assert "rank 5: pipeline stage 1, replica 0, tensor rank 1; the rank receives activations, not tokens" in head
    assert said.count("\nsample ") == 8
    everything = call(paths, "--samples", "0:200", "--limit", 200, "--text", "full")
    assert not [character for character in everything if ord(character) < 32 and character != "\n"]
    assert not {"\u202e", "\u200f", "\x7f"} & set(everything)
    assert "\u2400" in everything
    assert "⟨U+202E⟩" in everything
    assert "👩🏽\u200d🚀" in everything, "joined emoji are not escaped"
    short = call(paths, "--samples", "0:200")
    assert short.count("\nsample ") == 16
    assert "184 more samples are not shown. --limit 200 shows all samples" in short
    assert max(map(cell_len, short.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        ((), ConfigError, "do not select samples"),
        (("--iteration", "1", "--samples", "1"), ConfigError, "do not select samples"),
        (("--samples", "1", "--rank", "0"), ConfigError, "do not select samples"),
        (("--validation", "en", "--iteration", "1"), ConfigError, "do not select samples"),
        (("--samples", "x"), ConfigError, "'x'.*a number N or a range"),
        (("--samples", "5:5"), SampleRangeError, "B at most 700"),
        (("--samples", "699:701"), SampleRangeError, "B at most 700"),
        (("--validation", "en", "--samples", "99"), SampleRangeError, "validation set en"),
        (("--validation", "xx"), SampleRangeError, "no validation set 'xx'.*one of"),
        (("--iteration", "0"), InputError, "iteration 0 does not exist.*1 to "),
        (("--iteration", "9999"), InputError, "iteration 9999 does not exist.*1 to "),
        (("--iteration", "1", "--rank", "12"), InputError, "rank 12 does not exist.*0 to 11.*2 x 3 x 2"),
        (("--iteration", "1", "--rank", "-1"), InputError, "rank -1"),
    ],
)
def test_a_wrong_selection_is_refused_with_the_valid_values(paths, words, error, match):
    with pytest.raises(error, match=match):
        CliRunner().invoke(app, [str(paths.run), *words], catch_exceptions=False)


def test_a_run_without_its_index_or_with_another_tokenizer_is_refused(paths, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        call(RunPaths(tmp_path / "none"), "--samples", "0")
    shutil.copytree(paths.run, tmp_path / "run")
    changed = RunPaths(tmp_path / "run")
    with (changed.tokenizer / "tokenizer.json").open("a") as handle:
        handle.write("\n")
    with pytest.raises(InputError, match="not the tokenizer of the index"):
        Tracer(changed, texts=True)
    assert traced(changed, "--samples", "0", "--text", "none")["count"] == 1
    changed.index_manifest.unlink()
    with pytest.raises(InputError, match=r"no index.*index stage has finished"):
        call(changed, "--samples", "0")


def test_a_missing_sidecar_is_named(paths, tmp_path):
    shutil.copytree(paths.run, tmp_path / "run")
    for path in (tmp_path / "run/index/tokens").rglob("*.documents.*"):
        path.unlink()
    with pytest.raises(BloomeryError, match=r"documents\.json"):
        call(RunPaths(tmp_path / "run"), "--samples", "0")


def test_texts_that_a_tokenizer_normalizes_still_match_by_their_tokens(paths, hostile_run, monkeypatch):
    tracer = Tracer(paths, texts=True)
    original = tracer._decode
    monkeypatch.setattr(tracer, "_decode", lambda tokens: original(tokens).lower() + " folded")
    assert np.all([document.text_matches_shard for document in tracer.train(3, None).documents])


def test_the_launcher_writes_the_texts_of_an_incident_beside_it(paths):
    incident = Incident(
        iteration=7, event="spike", action="log", values={"grad_norm": 15.9}, from_sample=64, to_sample=72, message="x"
    )
    path = write_incident(paths.incidents, incident)
    IncidentTexts(paths).finish(60.0)
    found = json.loads(texts_path(path).read_text(encoding="utf-8"))
    assert found == traced(paths, "--samples", "64:72")
    assert all(document["text"] for sample in found["samples"] for document in sample["documents"])
    before = texts_path(path).stat().st_mtime_ns
    IncidentTexts(paths).finish(60.0)
    assert texts_path(path).stat().st_mtime_ns == before, "the texts are written only once"
    assert len(list(paths.incidents.iterdir())) == 2
