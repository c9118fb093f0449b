"""Find results whose files or links are missing, before a workflow starts.

A copy of a run that follows links (`cp -rL`, `scp -r`) has copies at the documented paths. They are replaced by links
again. A result that lacks a file is built again by the workflow.
"""

from __future__ import annotations

import contextlib
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

    A result stays as it is if its folder lacks a file, or if a documented file is missing or has other content. Of the
    linked files of an earlier stage, such as token files, only the sizes are compared, because these files are large.

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
        result = _with_copies(place)
        # Another process that writes this result links it, too.
        with contextlib.suppress(TryAgainError):
            if result is not None:
                with locked(place):
                    link_result(place, result)
                found.append(place)
    return found


def _pointers(results: Path) -> list[Path]:
    """Return the pointer of each result, also of those whose pointer was set aside."""
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
    except OSError:
        return None  # a documented file is missing or unreadable
    return result if equal and not all(linked) else None


def set_incomplete_aside(results: Path) -> list[Place]:
    """Rename the pointer of each result below `results` that lacks a file, so that the workflow builds it again.

    If the missing file has returned, the pointer gets its name back, with its old modification time. The files
    themselves stay. Return the places whose pointer was set aside.
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
