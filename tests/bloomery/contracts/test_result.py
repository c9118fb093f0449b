"""Test that the last good result of a stage stays until the next one is complete."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bloomery.base.errors import CheckFailedError, ConfigError, InputError, TryAgainError
from bloomery.contracts.repair_results import set_incomplete_aside
from bloomery.contracts.result import (
    Place,
    check_result,
    last_record,
    new_result,
    read_result,
    written_to,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(tmp_path / "run/results/export/m.json")


def write(place: Place, text: str, *names: str) -> None:
    with new_result(place) as new:
        for name in names or ("m/weights", "m/config.json"):
            (new.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new.folder / name).write_text(f"{name} {text}")
        new.made_from = {"checkpoint": text}


def shown(place: Place) -> dict[str, str]:
    """Return the content of every file below the documented path."""
    found = {}
    for folder, _, names in os.walk(place.shown, followlinks=True):
        for path in (Path(folder) / name for name in names):
            found[path.relative_to(place.shown).as_posix()] = path.read_text()
    return found


def test_the_documented_path_leads_to_the_newest_complete_result(place: Place) -> None:
    write(place, "1")
    write(place, "2")
    assert shown(place) == {"m/weights": "m/weights 2", "m/config.json": "m/config.json 2"}
    result = check_result(place, content=True)
    assert result.made_from == {"checkpoint": "2"}
    # The older result is removed.
    assert sorted(path.name for path in place.folder.iterdir()) == sorted([".record.json", "current", result.digest])


def test_a_failed_result_leaves_the_previous_one_even_if_the_pointer_is_deleted(place: Place) -> None:
    write(place, "1")
    place.pointer.unlink()
    with pytest.raises(InputError), new_result(place) as new:
        read_result(new.folder / "missing.json")
    assert shown(place)["m/weights"] == "m/weights 1"
    assert not place.pointer.exists()


@pytest.mark.parametrize("calls", range(1, 12))
def test_a_kill_at_any_rename_leaves_the_previous_or_the_new_result(place: Place, calls: int) -> None:
    write(place, "1")
    program = f"""
        import os, signal
        from pathlib import Path
        from bloomery.contracts import result
        left = {calls}
        def dying(event, arguments):
            global left
            if event in ("os.rename", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        import sys
        place = result.Place.of(Path({str(place.pointer)!r}))
        sys.addaudithook(dying)
        with result.new_result(place) as new:
            (new.folder / "m").mkdir()
            (new.folder / "m/weights").write_text("m/weights 2")
            (new.folder / "m/config.json").write_text("m/config.json 2")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode in (0, -signal.SIGKILL)
    texts = {text.rsplit(" ", 1)[1] for text in shown(place).values()}
    assert len(shown(place)) == 2
    assert len(texts) == 1
    write(place, "3")
    assert check_result(place, content=True).made_from == {"checkpoint": "3"}
    assert not list(place.folder.glob(".new*"))


def test_a_second_writer_is_refused_and_the_first_one_completes(place: Place) -> None:
    with new_result(place) as new:
        (new.folder / "m").write_text("first")
        with pytest.raises(TryAgainError, match="another process is writing this"), new_result(place):
            pass
    assert shown(place) == {"m": "first"}


def test_files_are_readable_as_the_umask_allows(place: Place) -> None:
    before = os.umask(0o027)
    try:
        with new_result(place) as new:
            (new.folder / "m").write_text("x")
            (new.folder / "m").chmod(0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((place.shown / "m").stat().st_mode) == 0o640


def test_the_copy_of_the_pointer_stays_when_the_pointer_is_deleted(place: Place) -> None:
    write(place, "1")
    place.pointer.unlink()
    assert last_record(place.pointer) == place.record
    assert check_result(place, content=True).made_from == {"checkpoint": "1"}


def test_a_newer_result_of_another_name_may_replace_a_link_of_an_older_one(tmp_path: Path) -> None:
    old, new = (Place.of(tmp_path / f"results/publish/{name}.json") for name in ("old", "new"))
    write(old, "1", "publish.json", "old/weights")
    write(new, "2", "publish.json", "new/weights")
    assert set_incomplete_aside(tmp_path / "results") == []
    assert (old.shown / "publish.json").read_text() == "publish.json 2"
    assert (old.shown / "old/weights").is_file()


def test_a_file_that_a_user_added_to_a_result_does_not_replace_it(place: Place) -> None:
    write(place, "1")
    (place.shown / "m/notes.txt").write_text("mine")
    write(place, "1")
    assert (place.shown / "m/notes.txt").read_text() == "mine"


def test_an_equal_result_is_kept_and_a_damaged_one_is_replaced(place: Place) -> None:
    write(place, "1")
    inode = (place.shown / "m/weights").stat().st_ino
    write(place, "1")
    assert (place.shown / "m/weights").stat().st_ino == inode
    (place.shown / "m/weights").write_text("m/weights X")
    with pytest.raises(CheckFailedError, match="differs"):
        check_result(place, content=True)
    write(place, "1")
    check_result(place, content=True)


def test_links_to_entries_that_no_longer_exist_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "results/tokenizer.json")
    place.shown.mkdir()
    (place.shown / "gate.json").write_text("{}")
    write(place, "1", "tokenizer.json", "origin.json")
    write(place, "2", "tokenizer.json", "training.json")
    assert sorted(path.name for path in place.shown.iterdir()) == ["gate.json", "tokenizer.json", "training.json"]


def test_a_folder_of_an_earlier_version_is_replaced_by_a_link(place: Place) -> None:
    (place.shown / "m").mkdir(parents=True)
    (place.shown / "m/weights").write_text("old")
    write(place, "1")
    assert shown(place)["m/weights"] == "m/weights 1"


def test_the_pointer_of_an_incomplete_result_is_set_aside_until_the_file_returns(place: Place) -> None:
    write(place, "1")
    results, weights = place.pointer.parents[1], (place.shown / "m/weights").resolve()
    before = place.pointer.stat().st_mtime_ns
    weights.rename(weights.with_name("moved"))
    assert set_incomplete_aside(results) == [place]
    assert not place.pointer.exists()
    assert set_incomplete_aside(results) == [place]
    weights.with_name("moved").rename(weights)
    assert set_incomplete_aside(results) == []
    assert place.pointer.stat().st_mtime_ns == before


def write_linked(place: Place, text: str, large: Path) -> None:
    with new_result(place) as new:
        (new.folder / "index.json").write_text(text)
        new.linked = {"files/a/large": large}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "run/index/tokens/large"
    path.parent.mkdir(parents=True)
    path.write_text("large")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Place:
    return Place.of(tmp_path / "run/results/index.json")


def test_a_result_keeps_a_linked_file_of_an_earlier_stage(
    index: Place, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.chmod(0o400)
    read = []
    monkeypatch.setattr("bloomery.contracts.file_entry.sha256_file", lambda path: read.append(path.name) or "0" * 64)
    write_linked(index, "1", large)
    assert read == ["index.json"], "linked files must not be read"
    assert stat.S_IMODE(large.stat().st_mode) == 0o400
    result = check_result(index)
    assert result.linked == {"files/a/large": 5}
    assert list(result.files) == ["index.json"]
    large.unlink()
    check_result(index)
    assert (index.shown / "files/a/large").read_text() == "large"


def test_an_equal_result_gets_the_newest_linked_file(index: Place, large: Path) -> None:
    write_linked(index, "1", large)
    large.unlink()
    large.write_text("large")
    write_linked(index, "1", large)
    assert (index.shown / "files/a/large").samefile(large)
    assert large.stat().st_nlink == 2
    (index.shown / "files/a/large").unlink()
    assert set_incomplete_aside(index.pointer.parent) == [index]
    write_linked(index, "1", large)
    check_result(index)


@pytest.mark.parametrize("calls", range(1, 15))
def test_a_kill_while_linked_files_are_replaced_leaves_a_complete_result(index: Place, large: Path, calls: int) -> None:
    write_linked(index, "1", large)
    large.unlink()
    large.write_text("large")
    program = f"""
        import os, signal, sys
        from pathlib import Path
        from bloomery.contracts import result
        left = {calls}
        def dying(event, arguments):
            global left
            if event in ("os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        place = result.Place.of(Path({str(index.pointer)!r}))
        sys.addaudithook(dying)
        with result.new_result(place) as new:
            (new.folder / "index.json").write_text("1")
            new.linked = {{"files/a/large": Path({str(large)!r})}}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode in (0, -signal.SIGKILL)
    check_result(index, content=True)
    assert (index.shown / "files/a/large").read_text() == "large"
    write_linked(index, "1", large)
    assert (index.shown / "files/a/large").samefile(large)
    assert not list(index.folder.rglob(".*.link"))


def test_the_removal_of_a_result_frees_the_space_of_its_linked_files(index: Place, large: Path) -> None:
    write_linked(index, "1", large)
    write_linked(index, "2", large)
    assert large.stat().st_nlink == 2
    old = large.stat().st_ino
    large.unlink()
    large.write_text("other")
    write_linked(index, "3", large)
    assert old not in {path.stat().st_ino for path in index.folder.rglob("*")}


def test_a_file_whose_linked_copy_has_another_size_is_found(index: Place, large: Path) -> None:
    write_linked(index, "1", large)
    large.write_text("shorter than that it is not")
    with pytest.raises(CheckFailedError, match="another size than when it was linked"):
        check_result(index)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}', "[" * 100_000])
def test_a_damaged_pointer_is_an_input_error(place: Place, text: str) -> None:
    place.pointer.parent.mkdir(parents=True)
    place.pointer.write_text(text)
    with pytest.raises(InputError, match=r"delete this file|JSON"):
        read_result(place.pointer)


def test_a_changed_digit_in_a_pointer_is_found(place: Place) -> None:
    write(place, "1")
    place.pointer.write_text(place.pointer.read_text().replace('"checkpoint": "1"', '"checkpoint": "2"'))
    with pytest.raises(InputError, match="own digest"):
        read_result(place.pointer)


def test_a_command_writes_to_a_folder_or_to_a_result_but_not_to_both(tmp_path: Path) -> None:
    pointer = tmp_path / "results/tokenizer.json"
    for folder, given in ((None, None), (tmp_path, pointer)):
        with pytest.raises(ConfigError, match="--output and --result"), written_to(folder, given):
            pass
    with written_to(tmp_path / "made", None) as new:
        assert new.folder == new.shown == tmp_path / "made"


@pytest.mark.parametrize("path", ["x/tokenizer.json", "results/other.json", "results/tokenizer.txt"])
def test_a_path_that_is_not_a_result_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match=r"not the path of a result.*runs/<name>/results"):
        Place.of(tmp_path / path)
