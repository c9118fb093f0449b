"""Test the new run that is planned from the answers to the questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import ConfigError
from data_prep.new_run.machine import Machine
from data_prep.new_run.plan_run import plan_run, source_names
from data_prep.new_run.questions import Answers
from data_prep.new_run.render_run import NewRun

TEXTS = {"fr": "un texte", "sw": "maandishi", "yo": "ọ̀rọ̀"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write one file for each of three languages."""
    for code, text in TEXTS.items():
        rows = [{"text": f"{text} {n}", "lang": code, "id": n} for n in range(10)]
        (tmp_path / f"{code}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def plan(**given: Any) -> NewRun:
    return plan_run(Answers(given, None), Machine(2, 1 << 33), 1e10, show=False)


def test_all_languages_are_read_by_one_pattern(folder: Path) -> None:
    run = plan(source=[str(folder)], name="x")
    assert run.sources[0]["paths"] == [f"{folder}/*.jsonl"]
    assert (run.limits.languages, run.excluded) == (3, [])
    assert run.limits.text_bytes == sum(len(f"{text} {n}".encode()) for text in TEXTS.values() for n in range(10))


def test_files_of_other_languages_are_left_out(folder: Path) -> None:
    run = plan(source=[str(folder)], languages=["sw", "yo"])
    assert run.sources[0]["paths"] == [f"{folder}/sw.jsonl", f"{folder}/yo.jsonl"]
    assert run.samples[0].languages == {"sw": 10, "yo": 10}
    assert run.excluded == []


def test_rows_of_other_languages_get_weight_0(folder: Path) -> None:
    mixed = folder / "mixed.jsonl"
    mixed.write_bytes(b"".join((folder / f"{code}.jsonl").read_bytes() for code in TEXTS))
    run = plan(source=[str(mixed)], languages=["sw"])
    assert run.excluded == ["fr", "yo"]
    assert run.limits.languages == 1
    assert run.limits.text_bytes == sum(len(f"{TEXTS['sw']} {n}") for n in range(10))
    assert run.values()["corpus"]["mixture"] == {"weights": {"fr": 0.0, "yo": 0.0}}


def test_a_source_without_a_wanted_language_is_left_out(folder: Path) -> None:
    run = plan(source=[str(folder / "fr.jsonl"), str(folder / "sw.jsonl")], languages=["sw"])
    assert [source["name"] for source in run.sources] == ["sw"]


def test_texts_without_a_language_need_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("un texte")
    with pytest.raises(ConfigError, match="--language"):
        plan(source=[str(tmp_path / "notes.txt")])
    run = plan(source=[str(tmp_path / "notes.txt")], language="fr")
    assert run.sources[0]["language"] == "fr"
    assert run.samples[0].languages == {"fr": 1}
    with pytest.raises(ConfigError, match="expected: zhs or zht"):
        plan(source=[str(tmp_path / "notes.txt")], language="zh")


@pytest.mark.parametrize(("languages", "right"), [(["zh"], "zhs or zht"), (["de"], "languages of these rows: fr")])
def test_languages_must_be_codes_that_the_rows_have(folder: Path, languages: list[str], right: str) -> None:
    with pytest.raises(ConfigError, match=right):
        plan(source=[str(folder)], languages=languages)


def test_a_source_is_needed() -> None:
    with pytest.raises(ConfigError, match="--source"):
        plan()


def test_sources_get_different_names() -> None:
    assert source_names(["/d/web/*.jsonl", "/e/web", "/f/fr.jsonl.zst", "/g/a b.txt"]) == ["web", "web-2", "fr", "a-b"]
