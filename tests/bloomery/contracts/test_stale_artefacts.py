"""Test that everything that is older than its inputs is marked, with the manifests of a fabricated run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fabricated_run import configuration, make_run
from fabricated_tables import rewrite, write_manifest, write_result, write_tables, write_tokenizer

from bloomery.base.atomic import read_json, write_json
from bloomery.base.digest import digest_ends, digest_file, sha256_file
from bloomery.base.errors import InputError
from bloomery.contracts import lineage, stale_tables
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.stale_artefacts import find_stale, stale_artefacts


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = make_run(tmp_path, configuration(), shards=3)
    write_tables(paths)
    write_tokenizer(paths)
    return paths


def older(paths: RunPaths) -> dict[str, str]:
    return {name: str(stale) for name, stale in stale_artefacts(paths).items()}


def change_section(paths: RunPaths, name: str) -> None:
    section = paths.config / f"{name}.json"
    write_json(section, read_json(section) | {"changed": True})


def test_a_run_as_it_was_made_has_nothing_stale(run: RunPaths) -> None:
    assert older(run) == {}


def test_counts_of_pre_tokens_of_another_configuration_make_the_tokenizer_stale(run: RunPaths) -> None:
    change_section(run, "count")
    assert older(run) == {"tokenizer": "older than its configuration (config/count.json)"}


def test_counts_that_were_made_again_make_the_tokenizer_stale(run: RunPaths) -> None:
    rewrite(run.tokenizer / "counts/s/00001.json", content="counted again")
    assert older(run) == {"tokenizer": "older than the counts of pre-tokens"}


@pytest.mark.parametrize(
    ("table", "cause"),
    [
        ("keys/s/00002", "keys of all shards"),
        ("duplicates/candidates-1", "duplicates/candidates-1"),
        ("duplicates/repeated-0", "duplicates/repeated-0"),
        ("duplicates/clusters", "duplicates/clusters"),
        ("duplicates/involved", "duplicates/involved"),
        ("members/s/00000", "members of all shards"),
        ("duplicates/resolved-1", "duplicates/resolved-1"),
        ("measures/s/00001", "measures/s/00001"),
        ("raw/s/00001", "raw/s/00001 or stripped/s/00001"),
    ],
)
def test_a_table_of_the_deduplication_that_was_made_again_makes_the_corpus_stale(
    run: RunPaths, table: str, cause: str
) -> None:
    rewrite(run.corpus / f"{table}.json", content="made again")
    assert older(run)["corpus"] == f"older than {cause}"
    assert "tokenizer" in older(run)


@pytest.mark.parametrize("section", ["dedup", "judge", "measure", "clean", "mixture", "ingest/s/00001"])
def test_another_section_makes_the_corpus_stale(run: RunPaths, section: str) -> None:
    change_section(run, section)
    cause = "the source of s/00001" if "/" in section else f"config/{section}.json"
    assert older(run)["corpus"] == f"older than its configuration ({cause})"


def test_deleted_tables_are_not_compared(run: RunPaths) -> None:
    for folder in ("keys", "members", "measures", "raw"):
        shutil.rmtree(run.corpus / folder)
    (run.corpus / "duplicates/clusters.json").unlink()
    assert older(run) == {}
    shutil.rmtree(run.corpus / "clean")
    assert older(run) == {}


def test_tables_that_remain_from_an_earlier_configuration_do_not_matter(run: RunPaths) -> None:
    documents = {"documents": lineage.table_digest(run.corpus / "raw/s/00000.json")}
    write_manifest(run.corpus / "stripped/s/00000.json", documents, "another section")
    assert older(run) == {}


def test_one_unreadable_manifest_does_not_hide_the_other_shards(run: RunPaths) -> None:
    damaged = run.corpus / "clean/s/00000.json"
    damaged.write_text("{")
    rewrite(run.corpus / "verdicts/s/00002.json", content="judged again")
    found = find_stale(run)
    assert str(found.stale["corpus"]) == "older than verdicts/s/00002"
    assert [error.where for error in found.unreadable["corpus"]] == [str(damaged)]
    damaged.write_text('{"file": {"digest": 3}}')
    assert "not the manifest of a table" in find_stale(run).unreadable["corpus"][0].what


def test_each_manifest_is_read_once(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(manifest: Path) -> stale_tables.Table:
        read.append(manifest)
        return read_table_record(manifest)

    read_table_record = stale_tables.read_table_record
    monkeypatch.setattr(stale_tables, "read_table_record", counted)
    assert older(run) == {}
    assert len(read) == len(set(read))
    tables = {path for folder in (run.corpus, run.tokenizer) for path in folder.glob("*/**/*.json")}
    assert tables - set(read) == set((run.corpus / "removed").rglob("*.json")) | {
        run.corpus / f"duplicates/survivors-{number}.json" for number in range(2)
    }


def test_a_damaged_listing_is_reported(run: RunPaths) -> None:
    (run.config / "parts.json").write_text("3")
    assert isinstance(find_stale(run).unreadable["corpus"][0], InputError)


def adopt(paths: RunPaths, folder: Path) -> None:
    """Write a pair of token files, adopt it, and write the record of an index of it."""
    pair = paths.index / "tokens/theirs/00000"
    pair.parent.mkdir(parents=True)
    digests, ends = {}, {}
    for suffix in ("bin", "idx"):
        own = folder / f"theirs.{suffix}"
        own.write_bytes(b"tokens of " + suffix.encode())
        pair.with_name(f"00000.{suffix}").symlink_to(own)
        digests[suffix], ends[suffix] = digest_file(own), digest_ends(own)
    write_manifest(pair.with_name("00000.documents.json"), digests, "tokenizer", counts={"ends": ends})
    write_json(paths.config / "adopted.json", ["theirs/00000"])
    made_from = lineage.adopted_files(paths.index / "tokens", ["theirs/00000"])
    assert list(made_from) == [lineage.TOKEN_FILES]
    write_result(paths, "index.json", made_from)


def test_adopted_token_files_that_changed_make_the_index_stale(run: RunPaths, tmp_path: Path) -> None:
    adopt(run, tmp_path)
    assert older(run) == {}
    (tmp_path / "theirs.bin").write_bytes(b"tokens of BIN")
    assert older(run) == {"index": "older than the adopted token files"}
    (tmp_path / "theirs.bin").unlink()
    assert older(run) == {}


def test_token_files_that_were_adopted_again_make_the_index_stale(run: RunPaths, tmp_path: Path) -> None:
    adopt(run, tmp_path)
    rewrite(run.index / "tokens/theirs/00000.documents.json", content="another language")
    assert older(run) == {"index": "older than the adopted token files"}


def test_the_files_of_an_imported_tokenizer_are_compared(run: RunPaths, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    made_from = {}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (own / name).write_text("{}")
        made_from[f"{lineage.IMPORTED}{name}"] = sha256_file(own / name)
    # A relative path refers to the folder in which the workflow ran.
    write_json(run.config / "tokenizer.json", {"tokenizer": {"existing": "own"}})
    write_json(run.workflow_command, {"command": "snakemake", "folder": str(tmp_path)})
    write_result(run, "tokenizer.json", made_from)
    assert older(run) == {}
    (own / "tokenizer_config.json").write_text("{ }")
    assert older(run) == {"tokenizer": "older than the imported tokenizer_config.json"}
    (own / "tokenizer_config.json").unlink()
    assert older(run) == {}


def test_an_index_of_other_token_files_is_stale(run: RunPaths) -> None:
    survivors = lineage.table_digest(run.corpus / "duplicates/survivors-0.json")
    clean = lineage.table_digest(run.corpus / "clean/s/00000.json")
    manifest = run.index / "tokens/s/00000.documents.json"
    write_manifest(manifest, {"s/00000": clean, "survivors-0": survivors}, "tokenizer")
    write_result(run, "index.json", {lineage.SECTION: lineage.section_digest(run.config / "index.json")})
    assert older(run) == {}
    rewrite(run.corpus / "duplicates/survivors-0.json", content="other clusters")
    assert older(run) == {"index": "older than duplicates/survivors-0"}
