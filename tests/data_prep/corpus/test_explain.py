"""Test the reasons of removed documents, and `explain`, which reports what happened to a document."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from bloomery.base.digest import document_id
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from data_prep.corpus.explain import explain
from data_prep.formats.shard import TableWriter, read_table


def test_a_removed_document_has_all_its_rules_and_its_kept_duplicate(sample_run: Any) -> None:
    verdicts = {row["id"]: row for row in sample_run.rows("verdicts")}
    kept = {row["id"]: row["duplicate_of"] for row in sample_run.duplicates()}
    clean = {row["id"] for row in sample_run.rows("clean")}
    removed = sample_run.rows("removed")
    assert removed
    for row in removed:
        if row["rule"].endswith("_duplicate"):
            assert row["rules"] == [row["rule"]]
            assert row["duplicate_of"] == kept[row["id"]]
            assert row["duplicate_of"] in clean
        else:
            assert row["rules"] == verdicts[row["id"]]["rules"]
            assert row["rules"][0] == row["rule"]
            assert row["duplicate_of"] is None


def test_keep_removed_text_stores_the_text_of_removed_documents(corpus_run: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "mail me: someone@example.org"}\n' + json.dumps({"text": "A good sentence. " * 3}) + "\n")
    source = {"name": "s", "kind": "jsonl", "paths": [str(path)], "language": "en"}
    judge = {"preset": "none", "thresholds": {"en": {"min_words": 6}}}
    run = corpus_run([source], keep_removed_text=True, judge=judge)
    run.all()
    assert [row["text"] for row in run.rows("removed")] == ["mail me: <EMAIL>"]


def test_explain_reports_kept_judged_and_duplicate_documents(sample_run: Any) -> None:
    run = RunPaths(sample_run.folder)
    clean = sample_run.rows("clean")[0]
    [kept] = explain(run, clean["id"])
    assert (kept["outcome"], kept["source"], kept["rules"], kept["duplicate"]) == ("kept", "sample", [], None)
    assert document_id("sample", kept["meta"]["key"]) == clean["id"]
    raw = read_table(sample_run.path("raw", kept["part"])).slice(kept["row"], 1).to_pylist()[0]
    assert raw["id"] == clean["id"]
    assert all(measure["holds"] for measure in kept["measures"].values())
    for row in sample_run.rows("removed"):
        [gone] = explain(run, row["id"])
        assert gone["outcome"] == f"removed: {row['rule']}"
        broken = {name for name, measure in gone["measures"].items() if not measure["holds"]}
        assert {rule[4:] for rule in gone["rules"] if rule != "wrong_language"} == broken
        if row["duplicate_of"]:
            assert gone["duplicate"]["duplicate_of"] == row["duplicate_of"]
            [kept] = explain(run, row["duplicate_of"])
            assert row["id"] in kept["removed_duplicates"]


@pytest.mark.slow
def test_explain_works_on_the_command_line(sample_run: Any) -> None:
    row = next(row for row in sample_run.rows("removed") if not row["duplicate_of"])
    command = [sys.executable, "-m", "bloomery.cli", "corpus", "explain", str(sample_run.folder), row["id"]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{row['id']}: removed: {row['rule']}\n")
    assert "\n! " in done.stdout or row["rule"] == "wrong_language"
    assert json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)[0]["id"] == row["id"]
    done = subprocess.run([*command[:-1], "nothing"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no document 'nothing'" in done.stderr


def test_explain_refuses_a_folder_without_a_corpus(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="there is no corpus in this folder"):
        explain(RunPaths(tmp_path), "x")


def test_explain_reports_documents_that_are_not_yet_measured(corpus_run: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "A good sentence. " * 3}) + "\n")
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": [str(path)], "language": "en"}])
    run.ingest()
    [found] = explain(RunPaths(run.folder), run.rows("raw")[0]["id"])
    assert (found["outcome"], found["measures"], found["rules"]) == ("not yet", None, None)


def test_explain_names_the_row_that_a_table_lacks(corpus_run: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"Sentence number {number}. " * 3}) + "\n" for number in range(3)))
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": [str(path)], "language": "en"}])
    run.ingest()
    schema = pa.schema([("words", pa.int64())])
    with TableWriter.open(run.path("measures", "s/00000"), schema) as writer:
        for number in range(2):  # two row groups
            writer.write(pa.record_batch([[number]], schema=schema))
            writer.end_group()
    writer.manifest(kind="measures", inputs={}, parameters="")
    with pytest.raises(InputError, match="the table has 2 rows, so row 2 of the raw shard is missing"):
        explain(RunPaths(run.folder), run.rows("raw")[2]["id"])
