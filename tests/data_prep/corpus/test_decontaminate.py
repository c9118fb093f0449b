"""Test that documents which quote an evaluation text are removed, and that the reason names this text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import ConfigError, InputError
from bloomery.config.corpus import DecontaminateConfig
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.plan_parts import evaluation_files
from data_prep.corpus.explain import explain
from data_prep.formats.shard import read_manifest

pytestmark = pytest.mark.slow

QUESTION = "Which of the three rivers that meet below the old castle was dammed first, and in what year was it done?"
CHINESE = (
    "下列哪一条河流在老城堡下面汇合以后最先被人们筑起大坝并且在哪"
    "一年完成了这项非常重要的水利工程请根据课文内容写出完整的答案"
)
PROSE = "The baker on our street begins work at three in the morning, long before the first bus rolls down the hill. "


def jsonl(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


def run_with(corpus_run: Any, tmp_path: Path, documents: list[dict[str, Any]], **settings: Any) -> Any:
    source = {
        "name": "s",
        "kind": "jsonl",
        "paths": [jsonl(tmp_path / "documents.jsonl", *documents)],
        "language_field": "language",
        "id_field": "id",
    }
    run = corpus_run([source], judge={"preset": "none"}, decontaminate=settings)
    run.all()
    return run


def test_a_quoted_question_is_found_in_any_case_and_punctuation(corpus_run: Any, tmp_path: Path) -> None:
    quoted = f"{PROSE * 3}\n“{QUESTION.upper().replace(',', ' -')}”\n{PROSE}"
    documents = [
        {"id": "quoted", "language": "en", "text": quoted},
        {"id": "clean", "language": "en", "text": PROSE * 4},
        {"id": "twelve", "language": "en", "text": PROSE + " ".join(QUESTION.split()[:12])},
        {"id": "chinese", "language": "zhs", "text": "今天天气很好。" * 9 + CHINESE[3:56] + "我们去公园玩。" * 5},
    ]
    evaluation = jsonl(
        tmp_path / "evaluation.jsonl",
        {
            "question": "What is the capital of the land where the sun never sets on the seven hills of the north?",
            "n": 1,
        },
        {"question": QUESTION, "n": 2},
        {"question": CHINESE, "n": 3},
    )
    run = run_with(corpus_run, tmp_path, documents, paths=[evaluation], text_fields=["question", "context"])
    keys = {row["id"]: json.loads(row["meta"])["key"] for row in run.rows("raw")}
    removed = {keys[row["id"]]: row for row in run.rows("removed")}
    assert removed.keys() == {"quoted", "chinese"}
    assert {row["rule"] for row in removed.values()} == {"contaminated"}
    raw = run.rows("raw")
    hits = {keys[raw[row["row"]]["id"]]: row for row in run.rows("contaminated")}
    assert hits["quoted"]["item"] == "evaluation.jsonl:2"
    assert hits["quoted"]["hits"] == len(QUESTION.split()) - 12
    assert hits["chinese"]["item"] == "evaluation.jsonl:3"
    counts = read_manifest(run.path("contaminated", run.parts[0]))["counts"]
    assert (counts["documents"], counts["items"]) == (2, 3)
    report, page = run.report()
    assert report["totals"]["removed"] == {"contaminated": 2}
    assert {example["item"] for example in report["rules"]["contaminated"]["examples"]} == {
        "evaluation.jsonl:2",
        "evaluation.jsonl:3",
    }
    assert "evaluation text with the most of them: evaluation.jsonl:2" in page
    [told] = explain(RunPaths(run.folder), removed["quoted"]["id"])
    assert (told["outcome"], told["contaminated"]["item"]) == ("removed: contaminated", "evaluation.jsonl:2")


def test_evaluation_files_may_be_parquet_and_min_hits_sets_the_least_matches(corpus_run: Any, tmp_path: Path) -> None:
    words = QUESTION.split()
    documents = [
        {"id": "one", "language": "en", "text": "A short note about bridges. " + " ".join(words[:13])},
        {"id": "many", "language": "en", "text": PROSE + QUESTION},
    ]
    path = tmp_path / "evaluation.parquet"
    pq.write_table(pa.table({"text": [QUESTION], "key": ["rivers-7"]}), path)
    run = run_with(corpus_run, tmp_path, documents, paths=[str(path)], id_field="key", min_hits=2)
    assert [row["item"] for row in run.rows("contaminated")] == ["rivers-7"]
    assert len(run.rows("clean")) == 1


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        ([{"text": ""}, {"text": "!!! ???"}], {}, "contain no n-gram, so nothing would be checked"),
        ([], {}, "empty file"),
        ([{"question": "x"}], {}, r"evaluation.jsonl:1: no text in any of the fields text"),
    ],
)
def test_evaluation_files_without_usable_text_are_refused(
    corpus_run: Any, tmp_path: Path, rows: list[dict[str, Any]], settings: dict[str, Any], said: str
) -> None:
    evaluation = jsonl(tmp_path / "evaluation.jsonl", *rows)
    with pytest.raises(InputError, match=said):
        run_with(corpus_run, tmp_path, [{"id": "a", "language": "en", "text": PROSE}], paths=[evaluation], **settings)


def test_a_pattern_that_matches_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"corpus.decontaminate.paths\[0\]: no file matches"):
        evaluation_files(DecontaminateConfig(paths=[f"{tmp_path}/*.jsonl"]))
    assert evaluation_files(DecontaminateConfig()) == []


def test_without_evaluation_files_no_table_of_contamination_is_written(sample_run: Any) -> None:
    assert not (sample_run.corpus / "contaminated").exists()
