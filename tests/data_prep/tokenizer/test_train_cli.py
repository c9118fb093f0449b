"""Test `bloomery tokenizer train`: its inputs, its files, and the input that it refuses."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from typer.testing import CliRunner

from bloomery.base.errors import ConfigError, InputError
from bloomery.checks.load_config import validate_config
from bloomery.config.stages import CountStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.tokenizer.cli import app
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.pre_tokenizer import recognise

pytestmark = pytest.mark.slow

ENGLISH = {"the": 900, " the": 800, " and": 700, " then": 60, " 1234": 50, "<s>": 40, " a<pad>b": 9, " ": 5}
FRENCH = {" les": 90, " été": 70, " là": 6}
FILES = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "training.json"]


def write_counts(path, **languages):
    rows = [(code, piece, count) for code, of in languages.items() for piece, count in of.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(zip(["language", "piece", "count"], zip(*rows, strict=True), strict=True))), path)
    return path


@pytest.fixture
def counts(tmp_path):
    return write_counts(tmp_path / "in/counts.parquet", en=ENGLISH, fr=FRENCH)


def train(*words):
    result = CliRunner().invoke(app, ["train", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def merges_of(folder):
    return json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]


def trained(folder):
    return json.loads((folder / "training.json").read_text())


SMALL = ["--vocab-size", 280, "--reserved-tokens", 2]


def test_counts_of_another_program_become_a_tokenizer_that_transformers_loads(counts, tmp_path):
    result = train("--counts", counts, *SMALL, "--output", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert result.stdout == ""
    assert "without a manifest" in result.stderr
    assert "next: bloomery tokenizer report" in result.stderr
    ours = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert recognise(json.loads(ours.to_str())) == ("bloom", False)
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ["the then  été 1234", "</s> a", "\n\n", "人", ""]:
        assert theirs(text)["input_ids"] == ours.encode(text).ids


def test_the_vocabulary_is_never_padded(counts, tmp_path):
    """Padding rows belong to the model, so they do not change the section of the tokenizer's stage."""
    train("--counts", counts, "--vocab-size", 275, "--reserved-tokens", 0, "--output", tmp_path / "out")
    assert Tokenizer.from_file(str(tmp_path / "out/tokenizer.json")).get_vocab_size() == 275
    model = {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8}
    run = {
        "name": "x",
        "sources": [{"name": "s", "kind": "jsonl", "paths": ["x.jsonl"], "language": "en"}],
        "tokenizer": {"vocabulary_size": 275, "reserved_tokens": 0},
        "training": {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}},
    }
    plain, padded = (
        stage_sections(validate_config(run | {"model": model | more}))["tokenizer"]
        for more in ({}, {"padded_vocabulary_size": 512})
    )
    assert plain == padded


def test_several_tables_and_a_folder_are_summed(counts, tmp_path):
    other = write_counts(tmp_path / "in/more.parquet", en={" and": 5000})
    train("--counts", counts, "--counts", other, *SMALL, "--output", tmp_path / "one")
    train("--counts", tmp_path / "in", *SMALL, "--output", tmp_path / "two")
    assert merges_of(tmp_path / "one") == merges_of(tmp_path / "two")
    assert merges_of(tmp_path / "one")[0] == ["Ġ", "a"]
    assert trained(tmp_path / "one")["language_bytes"]["en"] > 20_000


@pytest.mark.parametrize(
    "weights",
    [{"en": 0.01, "fr": 0.99}, {"languages": {"en": {"weight": 0.01}, "fr": {"weight": 0.99}}}],
)
def test_weights_may_be_plain_numbers_or_a_mixture(counts, tmp_path, weights):
    (tmp_path / "w.json").write_text(json.dumps(weights))
    train("--counts", counts, *SMALL, "--weights", tmp_path / "w.json", "--output", tmp_path / "out")
    report = trained(tmp_path / "out")
    sizes = {code: size * report["factors"][code] for code, size in report["language_bytes"].items()}
    assert sizes["fr"] / sum(sizes.values()) == pytest.approx(0.99)
    assert merges_of(tmp_path / "out")[0] == ["Ã", "©"]


def test_the_most_frequent_pieces_are_kept_and_their_share_is_reported(counts, tmp_path):
    result = train("--counts", counts, *SMALL, "--max-pieces", 3, "--output", tmp_path / "out")
    report = trained(tmp_path / "out")
    occurrences = sum(ENGLISH.values()) - 40 + 9 + sum(FRENCH.values())  # "<s>" gives no piece, " a<pad>b" gives two
    assert (report["pieces"], report["pieces_found"]) == (3, 11)
    assert report["share_kept"] == pytest.approx(2400 / occurrences)
    assert "the training uses only the 3 most frequent pre-tokens" in result.stderr


@pytest.mark.parametrize(("preset", "split_digits"), [("modern", False), ("bloom", True)])
def test_the_pre_tokenizer_of_the_counts_is_used(make_shard, tmp_path, preset, split_digits):
    stage = CountStage(pre_tokenizer=preset, split_digits=split_digits)
    count_shards(stage, [make_shard("s/00000", {"en": ["ab ab 12 12"] * 3})], tmp_path / "c.parquet")
    train("--counts", tmp_path / "c.parquet", *SMALL, "--output", tmp_path / "out")
    assert recognise(json.loads((tmp_path / "out/tokenizer.json").read_text())) == (preset, split_digits)
    assert trained(tmp_path / "out")["pre_tokenizer"] == {"preset": preset, "split_digits": split_digits}
    other = "bloom" if preset == "modern" else "modern"
    with pytest.raises(ConfigError, match=f"counted with the pre-tokenizer '{preset}'"):
        train("--counts", tmp_path / "c.parquet", *SMALL, "--pre-tokenizer", other, "--output", tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_options_override_the_configuration(counts, tmp_path):
    stage = {"tokenizer": {"vocabulary_size": 300, "reserved_tokens": 5, "pre_tokenizer": "modern"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stage))
    (tmp_path / "parts.json").write_text(json.dumps([f"{counts.parent.name}/counts"]))
    words = [
        "--config",
        tmp_path / "tokenizer.json",
        "--counts",
        counts.parent.parent,
        "--parts",
        tmp_path / "parts.json",
    ]
    train(*words, "--reserved-tokens", 7, "--output", tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert tokenizer.id_to_token(4 + 6) == "<reserved_6>"
    assert recognise(json.loads(tokenizer.to_str())) == ("modern", False)
    assert trained(tmp_path / "out")["vocabulary_asked"] == 300


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--vocab-size", 459], ConfigError, "at least 460 .*--reserved-tokens"),
        ([], ConfigError, "--vocab-size"),
        ([*SMALL, "--weights", "nan.json"], InputError, "NaN is not a JSON number"),
        ([*SMALL, "--weights", "negative.json"], InputError, "weight of 'fr' is -1"),
        ([*SMALL, "--weights", "text.json"], InputError, "weight of 'en' is much"),
        ([*SMALL, "--weights", "great.json"], InputError, r"is beyond 2\^63"),
        ([*SMALL, "--weights", "zero.json"], InputError, "all weights are 0"),
        ([*SMALL, "--weights", "list.json"], InputError, "no weights"),
        (
            [*SMALL, "--weights", "unknown.json"],
            InputError,
            "sets weights for xx, but no text of these datasets was counted",
        ),
        ([*SMALL, "--weights", "missing.json"], InputError, "no such file"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(counts, tmp_path, monkeypatch, words, error, message):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "nan": '{"en": NaN}',
        "negative": '{"en": 1, "fr": -1}',
        "text": '{"en": "much"}',
        "great": f'{{"en": 1{"0" * 400}}}',
        "zero": '{"en": 0, "fr": 0}',
        "list": "[1, 2]",
        "unknown": '{"en": 1, "xx": 1}',
    }.items():
        (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(error, match=message):
        train("--counts", counts, *words, "--output", tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def test_an_older_tokenizer_stays_if_the_training_fails(counts, tmp_path):
    train("--counts", counts, *SMALL, "--output", tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    bad = write_counts(tmp_path / "bad.parquet", en={"x": -1})
    with pytest.raises(InputError, match=r"the count of the pre-token .* is -1"):
        train("--counts", counts, "--counts", bad, *SMALL, "--output", tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_an_error_gives_a_message_without_traceback_and_an_exit_code(counts, tmp_path):
    command = [sys.executable, "-m", "bloomery.cli", "tokenizer", "train"]
    command += ["--counts", str(counts), "--output", str(tmp_path / "out")]
    done = subprocess.run([*command, "--vocab-size", "300"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--reserved-tokens" in done.stderr
    assert "Traceback" not in done.stderr
