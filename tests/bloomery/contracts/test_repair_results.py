"""Test that a copy of a run that follows links gets its links back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bloomery.contracts.repair_results import restore_links, set_incomplete_aside
from bloomery.contracts.result import Place, check_result, locked, new_result


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return the index of a run that was copied with `cp -aL`."""
    original = Place.of(tmp_path / "original/results/index.json")
    tokens = tmp_path / "original/index/tokens"
    tokens.mkdir(parents=True)
    (tokens / "a.bin").write_text("tokens")
    for text in ("1", "2"):
        with new_result(original) as new:
            (new.folder / "arrays").mkdir()
            (new.folder / "arrays/x.npy").write_text(f"array {text}")
            (new.folder / "index.json").write_text(text)
            new.linked = {"token_files/a.bin": tokens / "a.bin"}
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    copied = Place.of(tmp_path / "copy/results/index.json")
    assert not copied.current.is_symlink()
    return copied


def test_equal_copies_become_links_again_and_the_pointer_stays(place: Place) -> None:
    before = place.pointer.stat().st_mtime_ns
    results = place.pointer.parent
    assert restore_links(results) == [place]
    assert place.current.is_symlink()
    assert (place.shown / "index.json").is_symlink()
    assert (place.shown / "token_files/a.bin").resolve().parts[-4:-2] == ("index", place.current.readlink().name)
    check_result(place, content=True)
    assert (place.pointer.stat().st_mtime_ns, set_incomplete_aside(results), restore_links(results)) == (before, [], [])


def test_a_file_that_a_user_added_to_a_copy_is_kept(place: Place) -> None:
    (place.shown / "arrays/mine/notes.txt").parent.mkdir()
    (place.shown / "arrays/mine/notes.txt").write_text("mine")
    assert restore_links(place.pointer.parent) == [place]
    assert (place.shown / "arrays").is_symlink()
    assert (place.shown / "arrays/mine/notes.txt").read_text() == "mine"
    check_result(place, content=True)


def test_a_file_of_a_user_that_differs_from_its_copy_prevents_the_links(place: Place) -> None:
    folder = next(path for path in place.folder.iterdir() if len(path.name) == 32)
    (place.shown / "arrays/notes.txt").write_text("newer")
    (folder / "arrays/notes.txt").write_text("older")
    assert restore_links(place.pointer.parent) == []
    assert (place.shown / "arrays/notes.txt").read_text() == "newer"


def test_a_pointer_that_was_set_aside_returns_when_the_links_are_restored(place: Place) -> None:
    results = place.pointer.parent
    assert set_incomplete_aside(results) == [place]
    assert restore_links(results) == [place]
    assert set_incomplete_aside(results) == []
    assert place.pointer.is_file()


@pytest.mark.parametrize("damage", ["other content", "other size", "missing", "missing in the result", "no record"])
def test_a_copy_that_differs_is_neither_linked_nor_lost(place: Place, damage: str) -> None:
    results = place.pointer.parent
    folder = next(path for path in place.folder.iterdir() if len(path.name) == 32)
    if damage == "other content":
        (place.shown / "arrays/x.npy").write_text("array 3")
    elif damage == "other size":
        (place.shown / "token_files/a.bin").write_text("edited tokens")
    elif damage == "missing":
        (place.shown / "index.json").unlink()
    elif damage == "missing in the result":
        (folder / "arrays/x.npy").unlink()
    else:
        place.pointer.write_text("{}")
        place.record.unlink()
    before = {path: path.read_text() for path in place.shown.rglob("*") if path.is_file()}
    assert restore_links(results) == []
    assert set_incomplete_aside(results) == [place]
    assert {path: path.read_text() for path in place.shown.rglob("*") if path.is_file()} == before


def test_a_result_that_another_process_writes_is_not_repaired(place: Place) -> None:
    with locked(place):
        assert restore_links(place.pointer.parent) == []
    assert restore_links(place.pointer.parent) == [place]


def test_a_deleted_link_means_that_the_result_is_built_again(place: Place) -> None:
    results = place.pointer.parent
    restore_links(results)
    (place.shown / "index.json").unlink()
    assert restore_links(results) == []
    assert set_incomplete_aside(results) == [place]
