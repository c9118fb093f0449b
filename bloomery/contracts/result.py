"""Keep the last good result of a stage until the next one is complete.

Snakemake deletes the declared outputs of a job before the job starts and after it fails. So the only declared output of
a stage with several files is a small pointer. The files themselves are in a folder that is named by their digest:

    results/<name>.json         the pointer: digest and files of the result, and digests of what it was made from
    results/<name>/<digest>/    the files of the result
    results/<name>/current      link to the folder of the newest result
    results/<name>/<reader>     link to the folder of the result that a long job reads (`bloomery.contracts.hold_index`)
    results/<name>/.record.json copy of the pointer of the newest result
    <place>/<entry>             link to `current/<entry>` for each file or folder of the result, such as
                                `tokenizer/tokenizer.json` or `export/<model>`

A new result is written in a temporary folder. When all its files are on the disk, the folder gets its name, then the
link `current` is replaced by a rename, and the pointer is written last. So the documented paths always lead to a
complete result. If a job fails or is killed, they lead to the previous result, and the missing pointer makes Snakemake
run the job again.

A result can also need large files of an earlier stage, such as the token files of an index. Its folder then has hard
links to these files. The record states only their sizes, and another file of the result states their digests.
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
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bloomery.base.atomic import explained, fsync_folder, read_json
from bloomery.base.digest import digest_json, sha256_file
from bloomery.base.errors import CheckFailedError, ConfigError, InputError
from bloomery.base.folders import only_writer, sync_folder
from bloomery.base.links import link_atomically, link_files
from bloomery.base.self_digest import check_own_digest, write_with_own_digest
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.file_entry import FileEntry, list_files
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
    linked: dict[SafePath, Annotated[int, Field(ge=0)]] = {}
    """Size in bytes of each file of an earlier stage that the result's folder has a link to, by the link's path."""


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
    """Digest of each input. The stage adds the digests."""
    known: Mapping[str, FileEntry] = field(default_factory=dict)
    """Files whose sizes and hashes the stage already knows, so that they need not be read again."""
    linked: dict[str, Path] = field(default_factory=dict)
    """Files of an earlier stage that the result needs, by their path in `folder`. The stage adds the files. The
    complete result has a hard link to each file, so the result keeps the content if the earlier stage replaces or
    deletes the file."""


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
    """Give the new folder its name, switch the links to it, write the pointer, and remove unused results."""
    sync_folder(new.folder)
    files = list_files(new.folder, known=new.known)
    digest = digest_json({name: entry.model_dump() for name, entry in sorted(files.items())})
    target = place.folder / digest
    damaged = place.folder / _DAMAGED
    shutil.rmtree(damaged, ignore_errors=True)
    if target.exists() and not _is_intact(target, files):
        target.rename(damaged)
    if not target.exists():
        link_files(new.linked, new.folder)
        new.folder.rename(target)
        fsync_folder(place.folder)
    else:
        link_files(new.linked, target)
    shutil.rmtree(damaged, ignore_errors=True)
    result = Result(
        version=version("bloomery"),
        digest=digest,
        files=files,
        made_from=dict(sorted(new.made_from.items())),
        linked={name: path.stat().st_size for name, path in sorted(new.linked.items())},
    )
    link_result(place, result)
    for record in (place.record, place.pointer):
        write_with_own_digest(record, result.model_dump(mode="json"))
    remove_unused(place)


def link_result(place: Place, result: Result) -> None:
    """Make `current` and the documented paths lead to the folder of `result`."""
    link_atomically(place.current, result.digest)
    _link_entries(place, sorted({Path(name).parts[0] for name in (*result.files, *result.linked)}))


def remove_unused(place: Place) -> None:
    """Remove every result that neither `current` nor the link of a reader leads to. The caller must hold the lock."""
    used = set()
    for link in place.folder.iterdir():
        # A reader may replace or remove its link at the same time.
        with contextlib.suppress(FileNotFoundError):
            used |= {link.readlink().name} if link.is_symlink() else set()
    for other in place.folder.iterdir():
        if other.name not in used and re.fullmatch("[0-9a-f]{32}", other.name):
            shutil.rmtree(other)


@contextlib.contextmanager
def locked(place: Place) -> Iterator[None]:
    """Hold the lock of a result, so that no other process writes it.

    Raises:
        TryAgainError: another process is writing this result.
        ResourceError: the disk is full or read-only, or permission is missing.
    """
    with explained(place.folder), only_writer(place.folder / _LOCK_NAME, place.folder):
        yield


def _is_intact(folder: Path, files: Mapping[str, FileEntry]) -> bool:
    """Whether `folder` has these files. Other files, which a user may have added, do not matter."""
    try:
        return all(is_file_of(folder / name, entry) for name, entry in files.items())
    except OSError:
        return False


def is_file_of(path: Path, entry: FileEntry) -> bool:
    """Whether `path` is a file with the size and the hash of `entry`."""
    return path.is_file() and path.stat().st_size == entry.bytes and sha256_file(path) == entry.sha256


def _link_entries(place: Place, entries: list[str]) -> None:
    """Link each entry of the result in the documented folder, and remove links to entries that no longer exist."""
    place.shown.mkdir(parents=True, exist_ok=True)
    way = Path(os.path.relpath(place.current, place.shown))
    for entry in entries:
        link_atomically(place.shown / entry, way / entry)
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
    """Return the pointer, or its copy if Snakemake deleted the pointer to build the result again.

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
    check_files(place, result, content=content)
    for name in (*result.files, *result.linked):
        path, shown = place.folder / result.digest / name, place.shown / name
        if _belongs_to_another_result(place, shown):
            continue
        if not shown.is_file() or not shown.samefile(path):
            raise CheckFailedError(
                "this path does not lead to the newest result",
                where=str(shown),
                expected=f"a link to {path}; {_rebuild(place)}",
            )
    return result


def check_files(place: Place, result: Result, *, content: bool = False) -> None:
    """Check that the folder of a result has every file with its size, and with its hash if `content` is true.

    Only sizes are compared for the linked files of an earlier stage.

    Raises:
        CheckFailedError: a file is missing, or differs from what was written.
    """
    for name in result.files:
        check_result_file(place, result, name, content=content)
    for name, size in result.linked.items():
        path = place.folder / result.digest / name
        if not path.is_file() or path.stat().st_size != size:
            raise CheckFailedError(
                "the file is missing or has another size than when it was linked",
                where=str(path),
                expected=f"{size} bytes; {_rebuild(place)}",
            )


def check_result_file(place: Place, result: Result, name: str, *, content: bool) -> None:
    """Check one file of a result.

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
