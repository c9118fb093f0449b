"""Test that the files of the stages' sections change exactly when their content changes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import InputError
from bloomery.checks.load_config import validate_config
from bloomery.config.part_input import FilePiece, PartInput
from bloomery.config.run import RunConfig
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.prepare_run import Part, other_shards, plan_run, read_parts, token_groups, write_sections


def config(root: Path, **changes: Any) -> RunConfig:
    raw = copy.deepcopy(yaml.safe_load((ROOT / "config/sample.yaml").read_text()))
    return validate_config(raw | {"root": str(root)} | changes)


LISTINGS = ("parts", "adopted", "token_files")


def two_parts(source: Any, ingest: Any) -> list[PartInput]:
    return [PartInput(["a.jsonl"], FilePiece(number=0, of=2)), PartInput(["b.jsonl", "c.jsonl"])]


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


def test_only_changed_sections_are_rewritten(tmp_path: Path) -> None:
    write_sections(config(tmp_path), plan_run(config(tmp_path), two_parts))
    run = config(tmp_path, seed=43)
    changed = {path.stem for path in write_sections(run, plan_run(run, two_parts))}
    assert changed == {"measure", "dedup", "index", "train"}
    changed = {path.stem for path in write_sections(run, plan_run(run, lambda *_: two_parts(None, None)[:1]))}
    assert changed == {"parts", "token_files"}


def test_shards_of_removed_parts_are_found(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    names = ["clean/sample/00000", "clean/sample/00001", "clean/sample/00002", "removed/gone/00000", "raw/gone/00000"]
    for name in names:
        (run.corpus / name).parent.mkdir(parents=True, exist_ok=True)
        for end in (".parquet", ".json"):
            (run.corpus / f"{name}{end}").touch()
    found = other_shards(run, plan_run(config(tmp_path), two_parts))
    assert {path.relative_to(run.corpus).with_suffix("").as_posix() for path in found} == {names[2], names[3]}
    assert len(found) == 4


MEGATRON = {"name": "tokens", "kind": "megatron", "paths": ["data/x"], "language": "fr"}


def pairs_and_shards(source: Any, ingest: Any) -> list[PartInput]:
    return [PartInput(["x.idx", "x.bin"])] if source.kind == "megatron" else two_parts(source, ingest)


def test_adopted_token_files_are_listed_after_the_shards(tmp_path: Path) -> None:
    sample = yaml.safe_load((ROOT / "config/sample.yaml").read_text())["sources"]
    changes = {"sources": [MEGATRON, *sample], "tokenizer": {"existing": "theirs"}}
    run, paths = config(tmp_path, **changes), RunPaths.of(str(tmp_path), "sample")
    parts = plan_run(run, pairs_and_shards)
    write_sections(run, parts)
    assert [part.name for part in parts if part.adopted] == ["tokens/00000"]
    listed = {name: json.loads((paths.config / f"{name}.json").read_text()) for name in LISTINGS}
    shards = ["sample/00000", "sample/00001"]
    assert listed == {"parts": shards, "adopted": ["tokens/00000"], "token_files": [*shards, "tokens/00000"]}
    assert read_parts(paths) == parts
    again = changes | {"sources": [MEGATRON | {"licence": "CC0-1.0", "weight": 2}, *sample]}
    changed = {path.stem for path in write_sections(config(tmp_path, **again), parts)}
    assert changed == {"mixture", "export"}, (
        "a change for later stages must not make a stage read the token files again"
    )
    without_ends = [MEGATRON | {"ends_with_end_of_document": False}, *sample]
    changed = {path.stem for path in write_sections(config(tmp_path, **changes | {"sources": without_ends}), parts)}
    assert "00000" in changed


def test_a_run_may_consist_of_token_files_alone(tmp_path: Path) -> None:
    run = config(tmp_path, sources=[MEGATRON], tokenizer={"existing": "theirs"})
    parts = plan_run(run, pairs_and_shards)
    write_sections(run, parts)
    assert [part.adopted for part in parts] == [True]
    assert read_parts(RunPaths.of(str(tmp_path), "sample")) == parts


def test_a_run_without_anything_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the sources contain nothing to read"):
        plan_run(config(tmp_path), lambda *_: [])


def test_consecutive_shards_of_a_source_share_token_files_named_after_the_first_shard(tmp_path: Path) -> None:
    parts = [Part(source, number, PartInput([])) for source, size in (("b", 5), ("a", 2)) for number in range(size)]
    adopted = Part("c", 0, PartInput(["x.idx", "x.bin"]), adopted=True)
    assert token_groups([*parts, adopted], 1) == {part.name: [part.name] for part in parts}
    assert token_groups([*parts, adopted], 2) == {
        "b/00000": ["b/00000", "b/00001"],
        "b/00002": ["b/00002", "b/00003"],
        "b/00004": ["b/00004"],
        "a/00000": ["a/00000", "a/00001"],
    }
    assert list(token_groups(parts, 100)) == ["b/00000", "a/00000"]
    run = config(tmp_path, index={"shards_per_file": 2})
    write_sections(run, plan_run(run, two_parts))
    folder = RunPaths.of(run.root, run.name).config
    assert json.loads((folder / "token_files.json").read_text()) == ["sample/00000"]
    assert json.loads((folder / "parts.json").read_text()) == ["sample/00000", "sample/00001"]
