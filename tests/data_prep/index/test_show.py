"""Test `show`, which prints the content of an index as JSON or as tables."""

import json

import pytest
from typer.testing import CliRunner

from bloomery.base.errors import InputError
from bloomery.contracts.sample_reader import SampleReader
from data_prep.index.cli import app


def call(*words):
    result = CliRunner().invoke(app, ["show", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_printed_numbers_equal_those_of_the_arrays(run):
    found = json.loads(call(run.index, "--json"))
    reader = SampleReader(run.index)
    read = [reader.locate(sample)[0] for sample in range(reader.train_samples)]
    assert found["train_samples"] == reader.train_samples == sum(entry["samples_read"] for entry in found["datasets"])
    for number, entry in enumerate(found["datasets"]):
        assert entry["samples_read"] == read.count(number)
        assert entry["samples_read"] <= entry["samples"]
        assert entry["epochs"] == pytest.approx(read.count(number) * 16 / entry["tokens"])
    assert {entry["name"]: entry["samples"] for entry in found["validation"]} == {
        name: reader.validation_samples(name) for name in reader.validation_names
    }
    assert {code: entry["weight"] for code, entry in found["languages"].items()} == run.weights
    held = sum(entry["tokens"] for entry in [*found["datasets"], *found["validation"]])
    assert held <= found["tokens"] == sum(file["tokens"] for file in found["token_files"])
    assert found["documents"] == sum(file["documents"] for file in found["token_files"]) == 105
    assert len(found["stages"]) == 1


def test_show_accepts_the_folder_of_a_run_and_prints_titled_tables(run):
    assert call(run.folder, "--json") == call(run.index, "--json")
    said = call(run.folder)
    lines = said.splitlines()
    for title in ("Index", "Mixture in tokens", "Training datasets", "Validation sets", "Token files"):
        assert title in lines
    table = lines[lines.index("Mixture in tokens") + 2 :][: len(run.weights)]
    assert [line.split("\t")[0] for line in table] == list(run.weights), "the languages that are read most come first"
    assert sum(float(line.split("\t")[4].rstrip("%")) for line in table) == pytest.approx(100, abs=0.1)


def test_stages_are_shown_if_there_are_several(own_run):
    own_run.build(blend=[{}, {"from_sample": 300, "weights": {"en": 1.0}}])
    lines = call(own_run.index).splitlines()
    first, second = lines[lines.index("Stages of the blend") + 2 :][:2]
    assert first.split("\t")[:2] == ["0", "300"]
    assert second.split("\t") == ["300", "700", "700", "en 400"]


def test_a_folder_without_an_index_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no index\.json.*index or of a run"):
        call(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        call(tmp_path / "none")
