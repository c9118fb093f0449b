"""Test the reports of runs with removed lines, with an earlier run, and with repeated ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BODY = (
    "{name} walked to the market before sunrise, bought {thing} from an old friend, and carried it home along the "
    "river while the town was still asleep and the first boats came in with {thing} and news from the islands."
)
NAMES = ["Anna", "Bruno", "Chidi", "Dalia", "Emeka", "Farah", "Goran", "Hana"]
THINGS = ["bread", "salt", "oranges", "rope", "candles", "rice", "paper", "honey"]


def source(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    path = folder / "a.jsonl"
    path.write_text("\n".join(json.dumps({"language": "en"} | row) for row in rows))
    return {"name": "a", "kind": "jsonl", "paths": [str(path)], "language_field": "language"} | settings


def test_removed_lines_are_counted(corpus_run: Any, tmp_path: Path) -> None:
    menu = "Home | News | Weather | About this site"
    rows = [
        {"text": f"{menu}\n" + BODY.format(name=name, thing=thing)} for name, thing in zip(NAMES, THINGS, strict=True)
    ]
    run = corpus_run(
        [source(tmp_path, rows)], lines={"enabled": True, "min_documents": 5}, judge={"preset": "none"},
    )  # fmt: skip
    run.all()
    data, page = run.report()
    told = data["repeated_lines"]["en"]
    assert [told[name] for name in ("documents", "documents_changed", "lines_removed")] == [len(rows)] * 3
    assert told["line_bytes_removed"] >= len(rows) * len(menu)
    assert "<h2>Repeated lines</h2>" in page


def test_a_run_that_removes_no_lines_has_no_section_about_repeated_lines(sample_run: Any) -> None:
    data, page = sample_run.report()
    assert data["repeated_lines"] is None
    assert "Repeated lines" not in page


def test_a_kept_document_of_an_earlier_run_is_named(corpus_run: Any, tmp_path: Path) -> None:
    rows = [{"text": BODY.format(name=name, thing=thing)} for name, thing in zip(NAMES, THINGS, strict=True)]
    (tmp_path / "old").mkdir()
    old = corpus_run([source(tmp_path / "old", rows[:4])], judge={"preset": "none"})
    old.all()
    run = corpus_run([source(tmp_path, rows)], judge={"preset": "none"}, dedup={"against": [str(old.folder)]})
    run.all()
    data, page = run.report()
    examples = data["rules"]["exact_duplicate"]["examples"]
    assert {example["duplicate_of_source"] for example in examples} == {"an earlier run"}
    assert {example["duplicate_of"] for example in examples} <= {row["id"] for row in old.rows("clean")}
    assert "of an earlier run" in page
    assert len(data["duplicates"]["clusters"]["largest"]) == 4


def test_rows_with_the_same_id_have_different_ids_in_the_report(corpus_run: Any, tmp_path: Path) -> None:
    rows = [{"key": "same", "text": f"Too short, number {number}."} for number in range(3)]
    rows += [{"key": name, "text": BODY.format(name=name, thing="salt")} for name in NAMES[:2]]
    run = corpus_run(
        [source(tmp_path, rows, id_field="key")], judge={"preset": "none", "thresholds": {"default": {"min_words": 9}}}
    )
    run.all()
    examples = run.report()[0]["rules"]["min_words"]["examples"]
    assert sorted(one["id"] for one in examples) == sorted(
        row["id"] for row in run.rows("removed") if row["rule"] == "min_words"
    )
    assert len({one["id"] for one in examples}) == 3
