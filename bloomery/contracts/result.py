"""Keep the last good result of a stage until the next one is complete.

Snakemake deletes the declared outputs of a job before the job starts and after it fails. So the only declared output of
a stage with several files is a small pointer. The files themselves are in a folder that is named by their digest:

    results/<name>.json         the pointer: digest and files of the result, and digests of what it was made from
    results/<name>/<digest>/    the files of the result
    results/<name>/current      link to the folder of the newest result
    results/<name>/.record.json copy of the pointer of the newest result
    <place>/<entry>             link to `current/<entry>` for each file or folder of the result, such as
                                `tokenizer/tokenizer.json` or `export/<model>`

A new result is written in a temporary folder. When all its files are on the disk, the folder gets its name, then the
link `current` is replaced by a rename, and the pointer is written last. So the documented paths always lead to a
complete result. If a job fails or is killed, they lead to the previous result, and the missing pointer makes Snakemake
run the job again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import explained, fsync_folder, read_json
from bloomery.base.digest import digest_json, sha256_file
from bloomery.base.errors import BloomeryError, CheckFailedError, ConfigError, InputError
from bloomery.base.folders import only_writer, sync_folder
from bloomery.base.self_digest import check_own_digest, write_with_own_digest
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.checkpoint import FileEntry
from bloomery.contracts.safe_path import SafePath

RESULTS = "results"
"""Name of the folder of a run that holds its results."""
SHOWN_IN = {
    "tokenizer": "tokenizer",
    "index": "index",
    "report": "report",
    "export": "export",
    "publish": "published",
    "logs": "published",
}
"""Folder of the run that has the links, for each result or group of results (`export/<model>`)."""
_CURRENT = "current"
_LOCK_NAME = ".lock"
_NEW = ".new"
_DAMAGED = ".damaged"
_RECORD = ".record.json"
_ASIDE = ".incomplete"
_REBUILD = "delete this file and run the workflow again, which builds the result again"


class Result(BaseModel):
    """Content of a pointer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    version: str
    """Version of Bloomery that made the result."""
    digest: str
    """Digest of the paths, sizes and hashes of all files. It is the name of the result's folder."""
    files: dict[SafePath, FileEntry]
    """Every file of the result, by its path in the result's folder."""
    made_from: dict[str, str]
    """Digest of each input, by the input's name (`bloomery.contracts.lineage`)."""


@dataclass(frozen=True)
class Place:
    """Where the result of a stage is."""

    pointer: Path
    """Pointer of the result, `results/<name>.json`."""
    shown: Path
    """Folder in which each top-level file or folder of the result has a link."""

    @classmethod
    def of(cls, pointer: Path) -> Place:
        """Return the place of a pointer in the folder `results` of a run.

        Raises:
            ConfigError: no stage writes a result with this name.
        """
        parents = [parent.name for parent in pointer.absolute().parents]
        if RESULTS in parents and pointer.suffix == ".json":
            results = pointer.parents[parents.index(RESULTS)]
            kind = pointer.relative_to(results).parts[0].removesuffix(".json")
            if kind in SHOWN_IN:
                return cls(pointer, results.parent / SHOWN_IN[kind])
        raise ConfigError(
            f"{str(pointer)!r} is not the path of a result",
            expected=f"runs/<name>/{RESULTS}/<result>.json, where the result is one of {', '.join(SHOWN_IN)}",
        )

    @property
    def folder(self) -> Path:
        """Folder of all results of this name."""
        return self.pointer.with_name(self.pointer.name.removesuffix(".json"))

    @property
    def record(self) -> Path:
        """Copy of the pointer, which stays when Snakemake deletes the pointer before it builds the result again."""
        return self.folder / _RECORD

    @property
    def current(self) -> Path:
        """Link to the folder of the newest complete result."""
        return self.folder / _CURRENT


@dataclass
class NewResult:
    """A result that is being written."""

    folder: Path
    """Folder for the files. It may not exist yet."""
    shown: Path
    """Folder in which people find the files when the result is complete."""
    made_from: dict[str, str] = field(default_factory=dict)
    """Digest of each input. The stage fills it in."""
    known: Mapping[str, FileEntry] = field(default_factory=dict)
    """Files whose sizes and hashes the stage already knows, so that they need not be read again."""


@contextlib.contextmanager
def new_result(place: Place) -> Iterator[NewResult]:
    """Yield an empty folder for a new result. It replaces the previous result when the `with` block ends.

    If the block raises an error, the previous result stays as it was.

    Raises:
        TryAgainError: another process is writing this result.
        ResourceError: the disk is full or read-only, or permission is missing.
    """
    with explained(place.folder), only_writer(place.folder / _LOCK_NAME, place.folder):
        new = NewResult(place.folder / _NEW, place.shown)
        shutil.rmtree(new.folder, ignore_errors=True)
        new.folder.mkdir(parents=True)
        try:
            yield new
            _complete(place, new)
        finally:
            shutil.rmtree(new.folder, ignore_errors=True)


@contextlib.contextmanager
def written_to(folder: Path | None, pointer: Path | None, option: str = "--output") -> Iterator[NewResult]:
    """Yield the folder that a command writes to: a new result if `pointer` is given, and otherwise `folder`.

    Args:
        folder: value of the command's option `option`, which a user gives.
        pointer: value of the command's option `--result`, which the workflow gives.
        option: name of the option, for the error message.

    Raises:
        ConfigError: not exactly one of the two options is given.
        TryAgainError, ResourceError: as for `new_result`.
    """
    if (folder is None) == (pointer is None):
        raise ConfigError(
            f"{option} and --result are both given or both missing",
            expected=f"{option} to write to a folder, or --result to replace the result of a run",
        )
    if pointer is not None:
        with new_result(Place.of(pointer)) as new:
            yield new
    else:
        assert folder is not None
        yield NewResult(folder, folder)


def _complete(place: Place, new: NewResult) -> None:
    """Give the new folder its name, switch the links to it, write the pointer, and remove older results."""
    sync_folder(new.folder)
    files = _files_of(new.folder, new.known)
    digest = digest_json({name: entry.model_dump() for name, entry in sorted(files.items())})
    target = place.folder / digest
    damaged = place.folder / _DAMAGED
    shutil.rmtree(damaged, ignore_errors=True)
    if target.exists() and not _is_intact(target, files):
        target.rename(damaged)
    if not target.exists():
        new.folder.rename(target)
        fsync_folder(place.folder)
    shutil.rmtree(damaged, ignore_errors=True)
    _link(place.current, digest)
    entries = sorted({Path(name).parts[0] for name in files})
    _link_entries(place, entries)
    result = Result(
        version=version("bloomery"), digest=digest, files=files, made_from=dict(sorted(new.made_from.items()))
    )
    for record in (place.record, place.pointer):
        write_with_own_digest(record, result.model_dump(mode="json"))
    for other in place.folder.iterdir():
        if other.name != digest and re.fullmatch("[0-9a-f]{32}", other.name):
            shutil.rmtree(other)


def _files_of(folder: Path, known: Mapping[str, FileEntry] | None = None) -> dict[str, FileEntry]:
    """Return the size and hash of every file in `folder`. Files in `known` are not read."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            entry = (known or {}).get(name)
            found[name] = entry or FileEntry(bytes=path.stat().st_size, sha256=sha256_file(path))
    return found


def _is_intact(folder: Path, files: Mapping[str, FileEntry]) -> bool:
    """Whether `folder` has these files. Other files, which a user may have added, do not matter."""
    try:
        return files.items() <= _files_of(folder).items()
    except OSError:
        return False


def _link(link: Path, target: str | Path) -> None:
    """Make `link` a link to `target` by a rename, so that the link always exists.

    A file or folder of an earlier version of Bloomery at this path is replaced.
    """
    if link.is_symlink() and link.readlink() == Path(target):
        return
    temporary = link.with_name(f".{link.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    old = link.with_name(f".{link.name}.old")
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(old, ignore_errors=True)
        link.rename(old)
    temporary.replace(link)
    fsync_folder(link.parent)
    shutil.rmtree(old, ignore_errors=True)


def _link_entries(place: Place, entries: list[str]) -> None:
    """Link each entry of the result in the documented folder, and remove links to entries that no longer exist."""
    place.shown.mkdir(parents=True, exist_ok=True)
    way = Path(os.path.relpath(place.current, place.shown))
    for entry in entries:
        _link(place.shown / entry, way / entry)
    for path in place.shown.iterdir():
        # Another result may change its own links in this folder at the same time.
        with contextlib.suppress(FileNotFoundError):
            if path.is_symlink() and path.name not in entries and path.readlink().parent == way:
                path.unlink()


def read_result(pointer: Path) -> Result:
    """Read a pointer.

    Raises:
        InputError: the pointer is missing or damaged, or was changed after it was written.
    """
    value = read_json(pointer)
    try:
        if not isinstance(value, dict):
            raise TypeError
        return Result.model_validate(check_own_digest(value, pointer, restore=_REBUILD))
    except (ValidationError, TypeError) as error:
        what = f": {wrong_values(error, Result)}" if isinstance(error, ValidationError) else ""
        raise InputError(
            f"not the record of a result{what}",
            where=str(pointer),
            expected=f"a file that this version of Bloomery wrote; {_REBUILD}",
        ) from error


def last_record(pointer: Path) -> Path | None:
    """Return the pointer, or its copy if the pointer was deleted because the result is built again.

    Return None if the result was never complete.
    """
    return next((path for path in (pointer, Place.of(pointer).record) if path.is_file()), None)


def check_result(place: Place, *, content: bool = False) -> Result:
    """Check that the documented paths lead to every file of the result, and return the result.

    Args:
        place: where the result is.
        content: whether to compare the hash of every file, too. Otherwise only sizes are compared.

    Raises:
        CheckFailedError: a link or a file is missing, or a file differs from what was written.
        InputError: the pointer is missing or damaged.
    """
    result = read_result(last_record(place.pointer) or place.pointer)
    for name in result.files:
        path = check_result_file(place, result, name, content=content)
        shown = place.shown / name
        if _belongs_to_another_result(place, shown):
            continue
        if not shown.is_file() or not shown.samefile(path):
            raise CheckFailedError(
                "this path does not lead to the newest result",
                where=str(shown),
                expected=f"a link to {path}; {_rebuild(place)}",
            )
    return result


def check_result_file(place: Place, result: Result, name: str, *, content: bool) -> Path:
    """Check one file of a result and return its path.

    Args:
        place: where the result is.
        result: the result.
        name: path of the file in the result's folder.
        content: whether to compare the hash, too. Otherwise only the size is compared.

    Raises:
        CheckFailedError: the file is missing or differs from what was written.
    """
    entry, path = result.files[name], place.folder / result.digest / name
    if not path.is_file() or path.stat().st_size != entry.bytes or (content and sha256_file(path) != entry.sha256):
        raise CheckFailedError(
            "the file is missing or differs from what was written",
            where=str(path),
            expected=f"{entry.bytes} bytes with SHA-256 {entry.sha256}; {_rebuild(place)}",
        )
    return path


def _rebuild(place: Place) -> str:
    return f"delete {place.pointer} and run the workflow again"


def _belongs_to_another_result(place: Place, shown: Path) -> bool:
    """Whether a path leads to a newer result of another name, such as the publication of a model of another name."""
    results = place.shown.parent / RESULTS
    target = shown.resolve()
    return (
        shown.exists()
        and target.is_relative_to(results.resolve())
        and not target.is_relative_to(place.folder.resolve())
    )


def set_incomplete_aside(results: Path) -> list[Place]:
    """Rename the pointer of each result below `results` that lacks a file, so that the workflow builds it again.

    If the missing file has returned, the pointer gets its name back, with its old modification time. The files
    themselves stay. Return the places whose pointer was set aside.
    """
    for aside in [*results.glob(f".*{_ASIDE}"), *results.glob(f"*/.*{_ASIDE}")]:
        pointer = aside.with_name(aside.name[1:].removesuffix(_ASIDE))
        if pointer.exists():
            aside.unlink()
        else:
            aside.rename(pointer)
    found = []
    for pointer in sorted([*results.glob("[!.]*.json"), *results.glob("*/[!.]*.json")]):
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
