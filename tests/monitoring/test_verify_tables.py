"""Test the verification of tables, token files and sources: what was deleted is counted, and what differs is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from bloomery.base.atomic import read_json, write_json
from bloomery.base.digest import digest_file, digest_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.contracts import lineage
from bloomery.contracts.paths import RunPaths
from data_prep.formats.shard import write_table
from monitoring.verify_files import Count
from monitoring.verify_tables import verify_sources, verify_tables

PARTS = ["web/00000", "web/00001"]


def table(paths: RunPaths, name: str, content: str = "", **inputs: str) -> None:
    """Write a table at `name`, which was made from tables at `inputs`."""
    digests = {each: lineage.table_digest(paths.run / f"{path}.json") for each, path in inputs.items()}
    rows = pa.table({"text": [name, content]})
    write_table(paths.run / f"{name}.parquet", rows, kind="test", inputs=digests, parameters="")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "runs/tiny")
    write_json(paths.config / "parts.json", PARTS)
    for part in PARTS:
        table(paths, f"corpus/raw/{part}")
        table(paths, f"corpus/measures/{part}", documents=f"corpus/raw/{part}")
        table(paths, f"corpus/verdicts/{part}", measures=f"corpus/measures/{part}")
        inputs = {"measures": f"corpus/measures/{part}", "verdicts": f"corpus/verdicts/{part}"}
        table(paths, f"corpus/keys/{part}", **inputs)
    keys = digest_json([lineage.table_digest(paths.corpus / f"keys/{part}.json") for part in PARTS])
    found = paths.corpus / "duplicates/candidates-0.parquet"
    write_table(found, pa.table({"node": [1]}), kind="test", inputs={"keys": keys}, parameters="")
    return paths


def test_tables_that_match_are_counted_with_their_manifests(run: RunPaths) -> None:
    assert verify_tables(run) == Count(files=2 * 9)


@pytest.mark.parametrize(("folder", "deleted"), [("raw", 2), ("measures", 2), ("verdicts", 2), ("keys", 2)])
def test_deleted_tables_are_not_reported_as_another_version(run: RunPaths, folder: str, deleted: int) -> None:
    shutil.rmtree(run.corpus / folder)
    assert verify_tables(run) == Count(files=2 * 7, not_present=deleted)


def test_a_table_whose_input_was_made_again_is_named(run: RunPaths) -> None:
    table(run, "corpus/measures/web/00001", "another", documents="corpus/raw/web/00001")
    with pytest.raises(CheckFailedError, match="another version of its input 'measures'") as found:
        verify_tables(run)
    assert found.value.where == str(run.corpus / "keys/web/00001.json")


def test_keys_that_were_made_again_are_named(run: RunPaths) -> None:
    inputs = {"measures": "corpus/measures/web/00001", "verdicts": "corpus/verdicts/web/00001"}
    table(run, "corpus/keys/web/00001", "another", **inputs)
    with pytest.raises(CheckFailedError, match="another version of its input 'keys'"):
        verify_tables(run)


@pytest.mark.parametrize(
    ("suffix", "error", "what"), [("parquet", CheckFailedError, "missing"), ("json", InputError, "no such file")]
)
def test_a_table_without_file_or_manifest_is_named(
    run: RunPaths, suffix: str, error: type[Exception], what: str
) -> None:
    gone = run.corpus / f"verdicts/web/00001.{suffix}"
    gone.unlink()
    with pytest.raises(error, match=what) as found:
        verify_tables(run)
    assert str(gone) in str(found.value)


def sources(paths: RunPaths, folder: Path) -> None:
    """Write sources in `folder`, to which the configuration refers by relative paths."""
    for number, part in enumerate(PARTS):
        text = folder / f"data/{number}.jsonl"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(f"text {number}")
        manifest = paths.corpus / f"raw/{part}.json"
        write_json(manifest, read_json(manifest) | {"inputs": {text.name: digest_file(text)}})
        write_json(paths.config / f"ingest/{part}.json", {"files": [f"data/{number}.jsonl"]})


def test_relative_sources_refer_to_the_folder_of_the_workflow(run: RunPaths, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    sources(run, folder)
    write_json(run.workflow_command, {"command": "snakemake", "folder": str(folder)})
    assert verify_sources(run) == Count(2, 0, f"relative paths of sources refer to the folder {folder}")
    (folder / "data/0.jsonl").write_text("text 1")
    with pytest.raises(CheckFailedError, match="the file of the source has changed") as found:
        verify_sources(run)
    assert found.value.where == str(folder / "data/0.jsonl")
    (folder / "data/0.jsonl").unlink()
    assert verify_sources(run).not_present == 1


def test_without_a_recorded_folder_sources_refer_to_the_working_folder(
    run: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(run, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert verify_sources(run) == Count(2, 0, f"relative paths of sources refer to the folder {tmp_path}")
    write_json(run.workflow_command, {"command": "snakemake", "folder": str(tmp_path / "gone")})
    assert verify_sources(run).files == 2
