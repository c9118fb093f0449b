"""Test that the index of an unfinished training is kept until the training releases it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from bloomery.base.errors import TryAgainError
from bloomery.contracts import hold_index as module
from bloomery.contracts.hold_index import hold_index, release_index
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, locked, new_result


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path / "run")


def build(paths: RunPaths, text: str) -> None:
    tokens = paths.index / "tokens/a.bin"
    tokens.parent.mkdir(parents=True, exist_ok=True)
    tokens.write_text("tokens")
    with new_result(Place.of(paths.results / "index.json")) as new:
        (new.folder / "index.json").write_text(text)
        new.linked = {"token_files/a.bin": tokens}


def contents(paths: RunPaths) -> set[str]:
    """Return the content of index.json of every result that exists."""
    folders = (paths.results / "index").iterdir()
    return {(path / "index.json").read_text() for path in folders if path.is_dir() and not path.is_symlink()}


def test_the_index_of_a_training_stays_until_a_segment_opens_a_newer_one(paths: RunPaths) -> None:
    build(paths, "1")
    held = hold_index(paths)
    build(paths, "2")
    build(paths, "3")
    assert (held / "index.json").read_text() == "1"
    assert (held / "token_files/a.bin").read_text() == "tokens"
    assert (paths.index / "index.json").read_text() == "3"
    assert contents(paths) == {"1", "3"}
    assert (hold_index(paths) / "index.json").read_text() == "3"
    assert contents(paths) == {"3"}


def test_a_finished_training_releases_its_index(paths: RunPaths) -> None:
    build(paths, "1")
    hold_index(paths)
    build(paths, "2")
    release_index(paths)
    assert contents(paths) == {"2"}
    release_index(paths)
    build(paths, "3")
    assert contents(paths) == {"3"}


def test_while_a_new_index_is_written_the_old_one_is_held_and_nothing_is_removed(paths: RunPaths) -> None:
    build(paths, "1")
    hold_index(paths)
    build(paths, "2")
    with locked(Place.of(paths.results / "index.json")):
        hold_index(paths)
        assert contents(paths) == {"1", "2"}


def test_an_index_without_a_record_is_neither_linked_nor_kept(paths: RunPaths) -> None:
    paths.index.mkdir(parents=True)
    (paths.index / "index.json").write_text("by hand")
    assert hold_index(paths) == paths.index
    release_index(paths)
    assert not paths.results.exists()


def test_a_new_index_that_is_completed_while_the_old_one_is_held_is_opened_instead(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(paths, "1")
    resolve, calls = module.resolve_index, 0

    def replaced_after_the_first_call(folder: Path) -> Path:
        nonlocal calls
        calls += 1
        found = resolve(folder)
        if calls == 1:
            build(paths, "2")
        return found

    monkeypatch.setattr(module, "resolve_index", replaced_after_the_first_call)
    assert (hold_index(paths) / "index.json").read_text() == "2"
    assert contents(paths) == {"2"}


def test_an_index_that_is_replaced_repeatedly_is_an_error(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    build(paths, "1")
    results = (paths.results / "index").resolve()
    other = itertools.count()
    monkeypatch.setattr(module, "resolve_index", lambda folder: results / f"{next(other):032}")
    with pytest.raises(TryAgainError, match="replaced repeatedly"):
        hold_index(paths)
