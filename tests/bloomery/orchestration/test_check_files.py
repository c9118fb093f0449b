"""Test the errors for files that a configuration names but that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed_sample import changed
from repository import ROOT

from bloomery.checks.load_config import validate_config
from bloomery.orchestration.check_files import file_problems


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def keys(**changes: Any) -> list[str]:
    return [problem.key for problem in file_problems(validate_config(changed(**changes)))]


def test_the_sample_names_only_files_that_exist() -> None:
    assert keys() == []


def test_every_missing_file_is_listed(tmp_path: Path) -> None:
    text = {"name": "a", "kind": "text", "paths": [str(tmp_path / "*.txt")], "language": "fr"}
    tokens = {"name": "b", "kind": "megatron", "paths": [str(tmp_path / "x")], "language": "fr"}
    found = keys(
        sources=[text, tokens],
        corpus__decontaminate={"paths": [str(tmp_path / "eval.jsonl")]},
        corpus__language_id={"fallback_model": str(tmp_path / "model")},
        corpus__dedup={"against": [str(tmp_path / "old")]},
        tokenizer={"existing": str(tmp_path / "tokenizer.json"), "report": {"parallel": str(tmp_path / "parallel")}},
    )
    assert sorted(found) == [
        "corpus.decontaminate.paths",
        "corpus.dedup.against[0]",
        "corpus.language_id.fallback_model",
        "sources[0].paths",
        "sources[1].paths",
        "tokenizer.existing",
        "tokenizer.report.parallel",
    ]


def test_names_of_a_hub_are_not_files() -> None:
    hub = {"name": "h", "kind": "hub", "dataset": "owner/name", "language": "fr"}
    assert keys(sources=[hub], tokenizer={"existing": "owner/name@main"}) == []


def test_the_problem_names_path_and_remedy() -> None:
    raw = changed(sources=[{"name": "a", "kind": "jsonl", "paths": ["absent/*.jsonl"]}])
    (problem,) = file_problems(validate_config(raw))
    assert (
        "sources[a].paths[0]: no file matches 'absent/*.jsonl'; expected: the path or pattern of existing files"
        in str(problem)
    )
