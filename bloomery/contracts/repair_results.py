"""Repair results whose files or links are missing, before a workflow starts.

A copy of a run that follows links (`cp -aL`, `scp -rp`) has copies of files at the documented paths. This module
replaces these copies by links. If a file is missing, the workflow builds the result again.
"""

from __future__ import annotations

import contextlib
import filecmp
import shutil
from pathlib import Path

from bloomery.base.errors import BloomeryError, ConfigError, TryAgainError
from bloomery.contracts.result import (
    Place,
    Result,
    check_files,
    check_result,
    is_file_of,
    last_record,
    link_result,
    locked,
    read_result,
)

_ASIDE = ".incomplete"


def restore_links(results: Path) -> list[Place]:
    """Link the documented paths of each result below `results` again, if equal copies have replaced the links.

    A result stays as it is if its folder lacks a file, or if a documented file is missing or has other content. Only
    the sizes of linked files of an earlier stage, such as token files, are compared, because these files are large.
    Files that a user added beside the copies move to the result's folder, so they stay at their documented paths.

    Return the places whose links were restored.

    Raises:
        ResourceError: a link cannot be written.
    """
    found = []
    for pointer in _pointers(results):
        try:
            place = Place.of(pointer)
        except ConfigError:
            continue  # not a file of Bloomery
        # If another process is writing this result, that process makes the links.
        with contextlib.suppress(TryAgainError):
            if (result := _with_copies(place)) is not None:
                with locked(place):
                    _move_added(place, result)
                    link_result(place, result)
                found.append(place)
    return found


def _pointers(results: Path) -> list[Path]:
    """Return the path of the pointer of each result, also if the pointer was set aside."""
    aside = [_pointer_of(path) for path in _asides(results)]
    return sorted({*results.glob("[!.]*.json"), *results.glob("*/[!.]*.json"), *aside})


def _asides(results: Path) -> list[Path]:
    return [*results.glob(f".*{_ASIDE}"), *results.glob(f"*/.*{_ASIDE}")]


def _pointer_of(aside: Path) -> Path:
    return aside.with_name(aside.name[1:].removesuffix(_ASIDE))


def _with_copies(place: Place) -> Result | None:
    """Return the result if it is complete, but copies of its files are at its documented paths instead of links."""
    record = last_record(place.pointer)
    if record is None:
        return None
    try:
        result = read_result(record)
        check_files(place, result)
    except BloomeryError:
        return None
    folder = place.folder / result.digest
    try:
        linked = [(place.shown / name).samefile(folder / name) for name in (*result.files, *result.linked)]
        equal = all(
            (place.shown / name).samefile(folder / name) or is_file_of(place.shown / name, entry)
            for name, entry in result.files.items()
        ) and all((place.shown / name).stat().st_size == size for name, size in result.linked.items())
        for name in _added(place, result):
            there = folder / name
            equal = equal and (not there.exists() or filecmp.cmp(place.shown / name, there, shallow=False))
    except OSError:
        return None  # a documented file is missing or unreadable
    return result if equal and not all(linked) else None


def _added(place: Place, result: Result) -> list[str]:
    """Return the files beside the copies that are not part of the result, by their paths below `place.shown`."""
    listed = {*result.files, *result.linked}
    folders = [place.shown / name for name in sorted({name.split("/")[0] for name in listed})]
    return [
        name
        for folder in folders
        if not folder.is_symlink()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and (name := path.relative_to(place.shown).as_posix()) not in listed
    ]


def _move_added(place: Place, result: Result) -> None:
    for name in _added(place, result):
        there = place.folder / result.digest / name
        if not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(place.shown / name, there)


def set_incomplete_aside(results: Path) -> list[Place]:
    """Rename the pointer of each incomplete result below `results`, so that the workflow builds the result again.

    A result is incomplete if a file or a link is missing, or has another size or target. If an earlier call renamed
    the pointer and the result is complete again, the pointer gets its name back, with its old modification time. The
    other files of a result are not changed. Return the places whose pointer this call renamed.
    """
    for aside in _asides(results):
        pointer = _pointer_of(aside)
        if pointer.exists():
            aside.unlink()
        else:
            aside.rename(pointer)
    found = []
    for pointer in _pointers(results):
        try:
            place = Place.of(pointer)
        except ConfigError:
            continue  # not a file of Bloomery
        try:
            check_result(place)
        except BloomeryError:
            pointer.rename(pointer.with_name(f".{pointer.name}{_ASIDE}"))
            found.append(place)
    return found
