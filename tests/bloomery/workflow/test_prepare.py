"""The stages' parts of the configuration are files that change exactly when their content does."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bloomery.base.errors import InputError
from bloomery.base.parent import PARENT_VARIABLE
from bloomery.config import RunConfig, validate_config
from bloomery.config.portion import Piece, Portion
from bloomery.contracts.paths import RunPaths
from bloomery.workflow.environment import prepare_environment
from bloomery.workflow.prepare import other_shards, plan_run, read_parts, write_sections

ROOT = Path(__file__).parents[3]


def config(root: Path, **changes: Any) -> RunConfig:
    raw = copy.deepcopy(yaml.safe_load((ROOT / "config/sample.yaml").read_text()))
    return validate_config(raw | {"root": str(root)} | changes)


def two_parts(source: Any, ingest: Any) -> list[Portion]:
    return [Portion(["a.jsonl"], Piece(number=0, of=2)), Portion(["b.jsonl", "c.jsonl"])]


def test_sections_are_written_once_and_read_back(tmp_path: Path) -> None:
    run = config(tmp_path)
    parts = plan_run(run, two_parts)
    written = write_sections(run, parts)
    assert {path.stem for path in written} >= {
        "measure",
        "judge",
        "tokenizer",
        "index",
        "train",
        "export",
        "publish",
        "00001",
    }
    assert write_sections(run, parts) == []
    assert read_parts(RunPaths.of(run.root, run.name)) == parts
    assert [part.name for part in parts] == ["sample/00000", "sample/00001"]
    assert [part.files for part in parts] == [["a.jsonl"], ["b.jsonl", "c.jsonl"]]


def test_only_what_changed_is_written_again(tmp_path: Path) -> None:
    write_sections(config(tmp_path), plan_run(config(tmp_path), two_parts))
    run = config(tmp_path, seed=43)
    changed = {path.stem for path in write_sections(run, plan_run(run, two_parts))}
    assert changed == {"measure", "dedup", "index", "train"}
    changed = {path.stem for path in write_sections(run, plan_run(run, lambda *_: two_parts(None, None)[:1]))}
    assert changed == {"parts"}


def test_shards_that_the_run_has_no_more_are_found(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    names = ["clean/sample/00000", "clean/sample/00001", "clean/sample/00002", "removed/gone/00000", "raw/gone/00000"]
    for name in names:
        (run.corpus / name).parent.mkdir(parents=True, exist_ok=True)
        for end in (".parquet", ".json"):
            (run.corpus / f"{name}{end}").touch()
    found = other_shards(run, plan_run(config(tmp_path), two_parts))
    assert {path.relative_to(run.corpus).with_suffix("").as_posix() for path in found} == {names[2], names[3]}
    assert len(found) == 4


def test_a_run_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the sources hold nothing to read"):
        plan_run(config(tmp_path), lambda *_: [])


def test_jobs_find_this_environments_programs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv(PARENT_VARIABLE, "1")
    prepare_environment(follow_workflow=True)
    prepare_environment(follow_workflow=True)
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert os.environ[PARENT_VARIABLE] == str(os.getpid())
    prepare_environment(follow_workflow=False)
    assert PARENT_VARIABLE not in os.environ
