"""Test that tables with an earlier version's column names are refused. The error names the files to delete."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import InputError
from bloomery.config.stages import CleanStage, read_stage
from bloomery.contracts.paths import RunPaths
from data_prep.corpus.clean import clean
from data_prep.corpus.explain import explain
from data_prep.corpus.removal_reason import Duplicates
from data_prep.formats.shard import read_manifest, read_table, write_table

RESOLVED = {"duplicate_of": "twin", "duplicate_of_part": "twin_part"}
MEMBERS = {"source_rank": "standing"}


def with_names(path: Path, names: dict[str, str]) -> None:
    """Rewrite the table with other column names. `names` maps the current names to the earlier ones."""
    table, manifest = read_table(path), read_manifest(path)
    renamed = table.rename_columns([names.get(name, name) for name in table.column_names])
    assert renamed.column_names != table.column_names
    write_table(path, renamed, **{key: manifest[key] for key in ("kind", "inputs", "parameters", "counts")})


@pytest.fixture
def earlier_run(sample_run: Any, tmp_path: Path) -> Any:
    """Copy the sample's run, with the column names of the version before the renames."""
    run = dataclasses.replace(sample_run, folder=tmp_path / "run")
    shutil.copytree(sample_run.folder, run.folder)
    for path in run.partitioned("resolved"):
        with_names(path, RESOLVED)
    for part in run.parts:
        with_names(run.path("members", part), MEMBERS)
    return run


def refused(path: Path, columns: str, files: str) -> str:
    return (
        f"{path}: the table was written by an earlier version of Bloomery: it has no column {columns}; "
        f"expected: a table of this version. Delete {files} of this run and run the workflow again, "
        "with all later stages"
    )


def test_resolved_duplicates_of_an_earlier_version_are_refused_wherever_they_are_read(earlier_run: Any) -> None:
    said = refused(
        earlier_run.partitioned("resolved")[0],
        "duplicate_of, duplicate_of_part",
        "corpus/members/ and corpus/duplicates/resolved-*",
    )
    with pytest.raises(InputError) as error:
        explain(RunPaths(earlier_run.folder), earlier_run.rows("clean")[0]["id"])
    assert str(error.value) == said
    with pytest.raises(InputError) as error:
        earlier_run.report()
    assert str(error.value) == said
    part = earlier_run.parts[0]
    with pytest.raises(InputError) as error:
        clean(
            read_stage(earlier_run.section("clean.json"), CleanStage),
            earlier_run.texts(part),
            earlier_run.path("verdicts", part),
            Duplicates(earlier_run.partitioned("resolved"), earlier_run.partitioned("repeated")),
            earlier_run.folder / "clean.parquet",
            earlier_run.folder / "removed.parquet",
        )
    assert str(error.value) == said
    assert not (earlier_run.folder / "clean.parquet").exists()


def test_members_of_an_earlier_version_are_refused(earlier_run: Any) -> None:
    with pytest.raises(InputError) as error:
        earlier_run.verb(
            "dedup resolve", "--config", earlier_run.section("dedup.json"), "--corpus", earlier_run.corpus,
            "--parts", earlier_run.section("parts.json"), "--partition", 0,
            "--output", earlier_run.partitioned("resolved")[0],
            "--survivors", earlier_run.partitioned("survivors")[0],
        )  # fmt: skip
    assert str(error.value) in [
        refused(earlier_run.path("members", part), "source_rank", "corpus/members/") for part in earlier_run.parts
    ]


def test_deleting_the_files_that_the_error_names_is_enough(earlier_run: Any, sample_run: Any) -> None:
    shutil.rmtree(earlier_run.corpus / "members")
    for path in (earlier_run.corpus / "duplicates").glob("resolved-*"):
        path.unlink()
    earlier_run.finish()
    assert earlier_run.duplicates() == sample_run.duplicates()
    for part in earlier_run.parts:
        assert earlier_run.path("clean", part).read_bytes() == sample_run.path("clean", part).read_bytes()
