"""Test the verification of the records of results, each of which exists twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import read_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.self_digest import write_with_own_digest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, new_result
from monitoring.verify_files import Count
from monitoring.verify_run import chain


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run with a result of two files."""
    paths = RunPaths(tmp_path)
    with new_result(_place(paths)) as new:
        (new.folder / "tokenizer.json").write_text("{}")
        (new.folder / "vocab.json").write_text("{}")
    return paths


def _place(paths: RunPaths) -> Place:
    return Place.of(paths.results / "tokenizer.json")


def _verify(paths: RunPaths) -> Count:
    return dict(chain(paths))["tokenizer"]()


def test_both_copies_of_a_record_are_read(paths: RunPaths) -> None:
    assert _verify(paths) == Count(files=2 + 2)


@pytest.mark.parametrize("copy", ["pointer", "record"])
def test_one_copy_of_a_record_is_enough(paths: RunPaths, copy: str) -> None:
    getattr(_place(paths), copy).unlink()
    assert _verify(paths) == Count(files=1 + 2)


@pytest.mark.parametrize("copy", ["pointer", "record"])
def test_a_changed_byte_in_either_copy_of_a_record_is_found(paths: RunPaths, copy: str) -> None:
    path: Path = getattr(_place(paths), copy)
    path.write_bytes(path.read_bytes().replace(b"vocab", b"vocaB"))
    with pytest.raises(InputError, match="changed after it was written") as found:
        _verify(paths)
    assert found.value.where == str(path)


def test_copies_of_a_record_that_differ_are_found(paths: RunPaths) -> None:
    record = _place(paths).record
    write_with_own_digest(record, read_json(record) | {"made_from": {"corpus": "another"}})
    with pytest.raises(CheckFailedError, match="the two copies of the record of this result differ") as found:
        _verify(paths)
    assert found.value.where == str(record)
