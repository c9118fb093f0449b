"""Test the tokenizer's and the index's commands as the workflow calls them, from clean shards to a verified index."""

import itertools
import json
import shutil
import stat

import pytest
from typer.testing import CliRunner

from bloomery.base.atomic import write_json
from bloomery.base.errors import ConfigError
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.sample_reader import SampleReader
from data_prep.index.adopt import adopt_tokens
from data_prep.index.cli import app as index
from data_prep.index.encode import encode_shards
from data_prep.index.encode_cli import app as encode
from data_prep.tokenizer.cli import app as tokenizer


def call(app, verb, *words, **flags):
    words += tuple(word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", str(value)))
    result = CliRunner().invoke(app, [verb, *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_the_verbs_of_the_rules_make_the_same_files_as_the_functions(own_run, tmp_path, monkeypatch):
    run = own_run
    run.build(token_files="token_files")
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "parts.json", list(run.parts))
    write_json(tmp_path / "count.json", {"pre_tokenizer": "bloom"})
    write_json(tmp_path / "tokenizer.json", {"tokenizer": {"vocabulary_size": 400, "reserved_tokens": 4}})
    settings = {
        "sequence_length": 16,
        "train_samples": 700,
        "validation_samples": 8,
        "validation_share": 0.2,
        "seed": 7,
    }
    write_json(tmp_path / "index.json", settings)
    made = tmp_path / "tokenizer/tokenizer.json"
    common = {"parts": "parts.json", "mixture": run.mixture}
    for part in run.parts:
        output = f"tokenizer/counts/{part}.parquet"
        call(tokenizer, "count", str(run.clean(part)), config="count.json", output=output)
    settings = {"config": "tokenizer.json", "counts": "tokenizer/counts", "parts": "parts.json"}
    call(tokenizer, "train", **settings, weights=run.mixture, output=made.parent)
    call(tokenizer, "report", tokenizer=made, corpus=run.folder / "corpus", parts="parts.json", output="report")
    for part in run.parts:
        words = [str(run.clean(part)), "--tokenizer", str(made), "--output", f"index/tokens/{part}.idx"]
        result = CliRunner().invoke(encode, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    call(index, "build", config="index.json", index="index", tokenizer=made, result="results/index.json", **common)
    found = json.loads(CliRunner().invoke(index, ["verify", "--index", "index", "--json"]).stdout)
    assert found["train_samples"] == 700
    assert set(json.loads((tmp_path / "report/tokenizer.json").read_text())["languages"]) == set(run.weights)
    for folder in ("index", "tokenizer"):
        for path in (run.folder / folder).rglob("*"):
            if path.is_file():
                assert (tmp_path / path.relative_to(run.folder)).read_bytes() == path.read_bytes(), path


@pytest.fixture
def built_by_workflow(run, tmp_path, monkeypatch):
    """Build an index of copied token files as the workflow does. Return the function that builds it again."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run.index / "tokens", "index/tokens")
    write_json(tmp_path / "parts.json", list(run.parts))
    settings = {"sequence_length": 16, "train_samples": 50, "validation_samples": 8, "validation_share": 0.2, "seed": 7}
    write_json(tmp_path / "index.json", settings)

    def build():
        options = {"config": "index.json", "index": "index", "parts": "parts.json", "mixture": run.mixture}
        call(index, "build", **options, tokenizer=run.tokenizer, result="results/index.json")

    build()
    return build


SUFFIXES = (".bin", ".idx", ".documents.parquet", ".documents.json")


def test_an_index_keeps_its_token_files_when_encode_replaces_or_deletes_them(built_by_workflow, run, tmp_path):
    manifest = read_index_manifest(tmp_path / "index/index.json")
    assert [entry.prefix for entry in manifest.token_files] == [f"token_files/{part}" for part in run.parts]
    for part, suffix in itertools.product(run.parts, SUFFIXES):
        assert (tmp_path / f"index/token_files/{part}{suffix}").samefile(f"index/tokens/{part}{suffix}")
    samples = [SampleReader(tmp_path / "index").train(number).tolist() for number in range(50)]
    part = run.parts[0]
    encode_shards(run.tokenizer, [run.clean(run.parts[2])], tmp_path / f"index/tokens/{part}")
    for suffix in SUFFIXES:
        (tmp_path / f"index/tokens/{run.parts[2]}{suffix}").unlink()
    call(index, "verify", "index")
    assert [SampleReader(tmp_path / "index").train(number).tolist() for number in range(50)] == samples


def test_an_equal_index_is_linked_to_the_newest_token_files_so_that_no_old_copy_takes_space(
    built_by_workflow, run, tmp_path
):
    part = run.parts[0]
    before = (tmp_path / "index/index.json").read_bytes()
    encode_shards(run.tokenizer, [run.clean(part)], tmp_path / f"index/tokens/{part}")
    (tmp_path / f"index/token_files/{run.parts[2]}.bin").unlink()
    built_by_workflow()
    assert (tmp_path / "index/index.json").read_bytes() == before
    for each, suffix in itertools.product(run.parts, SUFFIXES):
        assert (tmp_path / f"index/token_files/{each}{suffix}").samefile(f"index/tokens/{each}{suffix}")
    assert not list((tmp_path / "results").rglob("*.link"))


def test_adopted_token_files_stay_symbolic_links_with_their_permissions(built_by_workflow, run, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for suffix in (".bin", ".idx"):
        (theirs / f"x{suffix}").write_bytes((run.index / f"tokens/{run.parts[0]}{suffix}").read_bytes())
        (theirs / f"x{suffix}").chmod(0o400)
    adopt_tokens(theirs / "x", run.tokenizer, "s", "en", tmp_path / f"index/tokens/{run.parts[0]}")
    built_by_workflow()
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"index/token_files/{run.parts[0]}{suffix}").readlink() == theirs / f"x{suffix}"
        assert stat.S_IMODE((theirs / f"x{suffix}").stat().st_mode) == 0o400
    call(index, "verify", "index")


def built(run, tmp_path, *words):
    prefixes = [str(run.index / f"tokens/{part}") for part in run.parts]
    given = ["--tokenizer", str(run.tokenizer), "--output", str(tmp_path / "alone"), *words]
    return CliRunner().invoke(index, ["build", *prefixes, *given])


def test_encoded_pairs_become_an_index_without_a_configuration(run, tmp_path):
    result = built(run, tmp_path, "--sequence-length", "16", "--samples", "50", "--validation-share", "0.2")
    assert result.exit_code == 0, result.output
    assert f"next: bloomery index verify {tmp_path / 'alone'}" in result.stderr
    found = call(index, "verify", str(tmp_path / "alone"), "--json")
    facts = json.loads(found.stdout)
    assert (facts["train_samples"], facts["token_files"]) == (50, 3)
    assert set(facts["train"]) == set(run.weights), "without a mixture, every language is used"
    lines = [line.split() for line in result.stderr.splitlines()]
    start = lines.index(["language", "tokens", "share", "epochs"]) + 1
    read = {code: (int(tokens.replace(",", "")), share) for code, tokens, share, _ in lines[start : start + 5]}
    assert set(read) == set(run.weights)
    assert max(read, key=lambda code: read[code][0]) == next(iter(read)), (
        "the language with the most tokens must be listed first"
    )
    reader = SampleReader(tmp_path / "alone")
    assert all(len(reader.train(sample)) == 17 for sample in range(50))


def test_a_mixture_and_an_order_may_be_given(run, tmp_path):
    words = ["--sequence-length", "16", "--samples", "50", "--mixture", str(run.mixture), "--order", "megatron"]
    assert built(run, tmp_path, *words).exit_code == 0
    manifest = SampleReader(tmp_path / "alone").manifest
    assert manifest.order == "megatron"
    assert manifest.shares["en"] == run.weights["en"]
    assert call(index, "verify", index=str(tmp_path / "alone")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--sequence-length", "16"], "--sequence-length or --samples is missing"),
        (["--sequence-length", "16", "--samples", "5", "--order", "random"], "--order: the value is 'random'"),
        (["--config", "index.json"], "--config is given without --index"),
    ],
)
def test_missing_or_wrong_options_are_a_usage_error(run, tmp_path, words, what):
    result = built(run, tmp_path, *words)
    assert isinstance(result.exception, ConfigError)
    assert what in str(result.exception)


def test_verify_accepts_the_folder_of_a_run(run):
    assert json.loads(call(index, "verify", str(run.folder), "--json").stdout)["train_samples"] == 700
    result = CliRunner().invoke(index, ["verify"])
    assert isinstance(result.exception, ConfigError)
    result = CliRunner().invoke(index, ["verify", str(run.folder), "--index", str(run.index)])
    assert isinstance(result.exception, ConfigError)


def test_a_pair_that_is_given_twice_is_refused(run, tmp_path):
    again = str(run.index / f"tokens/{run.parts[0]}.idx")
    result = built(run, tmp_path, again, "--sequence-length", "16", "--samples", "50")
    assert isinstance(result.exception, ConfigError)
    assert "these token files were given twice" in str(result.exception)


@pytest.mark.parametrize("name", ["blend.json", "file"])
def test_the_output_of_an_index_must_be_a_folder(run, tmp_path, name):
    (tmp_path / "file").touch()
    output = ["--output", str(tmp_path / name)]
    result = built(run, tmp_path, *output, "--sequence-length", "16", "--samples", "50")
    assert isinstance(result.exception, ConfigError)
    assert "--output" in str(result.exception)
