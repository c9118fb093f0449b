"""The verbs as the workflow's rules call them, from clean shards to a verified index."""

import json

from typer.testing import CliRunner

from bloomery.base.atomic import write_json
from data_prep.index.cli import app as index
from data_prep.tokenizer.cli import app as tokenizer


def call(app, verb, **flags):
    words = [word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(app, [verb, *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_the_rules_verbs_make_the_same_files_as_the_functions(run, tmp_path, monkeypatch):
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
        call(tokenizer, "count", config="count.json", input=run.clean(part), output=output)
    call(tokenizer, "train", config="tokenizer.json", counts="tokenizer/counts", output=made, **common)
    pages = {"output_json": "report/tokenizer.json", "output_html": "report/tokenizer.html"}
    call(tokenizer, "report", tokenizer=made, corpus=run.folder / "corpus", parts="parts.json", **pages)
    for part in run.parts:
        call(index, "encode", tokenizer=made, input=run.clean(part), output=f"index/tokens/{part}.idx")
    call(index, "build", config="index.json", index="index", tokenizer=made, output="index/index.json", **common)
    found = json.loads(CliRunner().invoke(index, ["verify", "--index", "index", "--json"]).stdout)
    assert found["train_samples"] == 700
    mixed = call(index, "mixture", index="index")
    assert [line.split()[0] for line in mixed.stdout.splitlines()] == ["language", *run.weights]
    table = json.loads(CliRunner().invoke(index, ["mixture", "--index", "index", "--json"]).stdout)
    assert {code: entry["weight"] for code, entry in table.items()} == run.weights
    assert set(json.loads((tmp_path / "report/tokenizer.json").read_text())["languages"]) == set(run.weights)
    for folder in ("index", "tokenizer"):
        for path in (run.folder / folder).rglob("*"):
            if path.is_file():
                assert (tmp_path / path.relative_to(run.folder)).read_bytes() == path.read_bytes(), path
