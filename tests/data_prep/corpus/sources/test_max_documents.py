"""Test `max_documents`: only the first part of a source is read, and the number is divided among the files of the
part."""

from __future__ import annotations

import json
from pathlib import Path

from bloomery.config.corpus import IngestConfig
from bloomery.config.part_input import PartInput
from bloomery.config.sources import JsonlSource, Source, TextSource, UdhrSource
from bloomery.config.stages import IngestStage
from bloomery.orchestration.plan_parts import plan_parts
from data_prep.corpus.ingest import ingest
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources import read_source

LIMITS = IngestConfig(shard_bytes=2048, max_document_bytes=1024)


def write(folder: Path, **rows: int) -> list[str]:
    for name, count in rows.items():
        lines = [json.dumps({"text": f"{name} {number}", "lang": "fr"}) for number in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    return sorted(str(path) for path in folder.glob("*.jsonl"))


def source(most: int | None, *paths: str) -> JsonlSource:
    paths = paths or ("x",)
    return JsonlSource(name="s", kind="jsonl", paths=list(paths), language_field="lang", max_documents=most)


def texts(stage_source: Source, files: list[str]) -> list[str]:
    stage = IngestStage(source=stage_source, part=0, files=files, ingest=LIMITS)
    return [item.text if isinstance(item, Row) else f"bad: {item.reason}" for item in read_source(stage)]


def test_files_share_the_limit_and_later_files_replace_the_missing_rows_of_a_short_one(tmp_path: Path) -> None:
    files = write(tmp_path, a=10, b=1, c=10)
    assert texts(source(9), files) == ["a 0", "a 1", "a 2", "b 0", *(f"c {number}" for number in range(5))]
    assert len(texts(source(None), files)) == 21
    assert len(texts(source(1000), files)) == 21
    assert texts(source(2), files) == ["a 0", "b 0"]


def test_bad_rows_count_towards_max_documents(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("no json\n" + json.dumps({"text": "x", "lang": "fr"}) + "\n")
    assert texts(source(1), [str(tmp_path / "a.jsonl")]) == ["bad: invalid JSON"]


def test_only_the_first_part_is_planned(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * 1500)
    pattern = f"{tmp_path}/*.jsonl"
    whole = plan_parts(source(None, pattern), LIMITS)
    assert len(whole) == 3
    assert plan_parts(source(5, pattern), LIMITS) == whole[:1]
    assert plan_parts(UdhrSource(name="u", kind="udhr", max_documents=5), LIMITS) == [PartInput(None)]


def test_max_documents_limits_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "fr.txt"
    path.write_text("one\n\ntwo\n\nthree\n")
    text = TextSource(name="t", kind="text", paths=["x"], documents="paragraph", max_documents=2)
    assert texts(text, [str(path)]) == ["one", "two"]


def test_max_documents_is_recorded_in_the_manifest(tmp_path: Path) -> None:
    files = write(tmp_path, a=10)
    stage = IngestStage(source=source(4), part=0, files=files, ingest=LIMITS)
    manifest = ingest(stage, tmp_path / "out.parquet", tmp_path / "bad.jsonl")
    assert manifest["counts"]["documents"] == 4
    whole = ingest(stage.model_copy(update={"source": source(None)}), tmp_path / "b.parquet", tmp_path / "bad.jsonl")
    assert whole["parameters"] != manifest["parameters"]
    assert not isinstance(next(iter(read_source(stage))), BadRow)
