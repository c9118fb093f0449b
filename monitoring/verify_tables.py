"""Verify the tables of a run and the files of its sources, for `monitoring.verify_run`.

A user may delete tables that a finished run no longer needs. A table is counted as not present if neither its file nor
its manifest exists. If one of the two exists, the other must exist, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.json_member import read_member
from bloomery.base.self_digest import check_file
from bloomery.contracts import lineage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.stale_tables import Table, read_table_record
from bloomery.contracts.table_inputs import TableInputs
from bloomery.contracts.workflow_folder import workflow_folder
from bloomery.orchestration.prepare_run import PARTS_NAME
from monitoring.verify_files import AGAIN, Count, check_digest, run_checks

_TABLES = ("corpus", "tokenizer/counts", "index/tokens")
"""Folders of a run with tables and their manifests."""


def verify_tables(paths: RunPaths) -> Count:
    """Check every table and its manifest, and that each table was made from tables of this run as they are now.

    Raises:
        CheckFailedError: a table is missing although its manifest exists, or differs, or was made from other inputs.
        InputError: a manifest is missing although its table exists, or cannot be read.
    """
    manifests = _manifests(paths.run)
    files = 2 * run_checks("tables", [partial(_table, manifest) for manifest in manifests])

    @cache
    def record(manifest: str) -> Table | None:
        try:
            return read_table_record(Path(manifest))
        except FileNotFoundError:
            return None

    def digest(manifest: str) -> str | None:
        found = record(manifest)
        return None if found is None else found.digest

    inputs = TableInputs(paths)
    not_present: set[str] = set()
    for manifest in manifests:
        if manifest.is_relative_to(paths.corpus / "raw"):
            files += _quarantine(paths, manifest)
        recorded: Mapping[str, str] = read_table_record(manifest).inputs
        for name, tables in inputs.of(manifest.as_posix(), recorded):
            now = tables.digests(digest)
            if not now:
                not_present.update(each for each in tables.manifests if digest(each) is None)
            elif recorded[name] not in now:
                raise CheckFailedError(
                    f"the table was made from another version of its input {name!r}",
                    where=str(manifest),
                    expected="an input with the recorded digest; run the workflow again",
                )
    # A table can be in corpus/stripped or in corpus/raw. It counts once.
    shards = {each.replace("/corpus/stripped/", "/corpus/raw/") for each in not_present}
    return Count(files, len(shards))


def _manifests(run: Path) -> list[Path]:
    """Return the path of each table's manifest in a run, if the table or its manifest exists."""
    found = {
        path.with_suffix(".json")
        for folder in _TABLES
        for suffix in ("parquet", "json")
        for path in (run / folder).glob(f"*/**/*.{suffix}")
        if not path.name.startswith(".")
    }
    return sorted(found)


def _table(manifest: Path) -> None:
    check_file(manifest, restore=AGAIN)
    check_digest(manifest.with_suffix(".parquet"), lineage.table_digest(manifest))


def _quarantine(paths: RunPaths, manifest: Path) -> int:
    """Check the file with the unreadable rows of a raw shard. Return the number of checked files."""
    path = paths.corpus / "quarantine" / manifest.relative_to(paths.corpus / "raw").with_suffix(".jsonl")
    digest = read_member(manifest, "counts", kind=dict).get("quarantine_digest")
    if digest is not None:
        check_digest(path, digest)
    return int(digest is not None)


def verify_sources(paths: RunPaths) -> Count:
    """Check that the files of the sources are unchanged since they were read. Files that do not exist are counted.

    Raises:
        CheckFailedError: a file has changed.
        InputError: a section of the configuration does not match its shard.
    """
    listing = paths.config / PARTS_NAME
    folder = workflow_folder(paths)
    checks: list[Callable[[], None]] = []
    not_present, is_relative = 0, False
    for part in read_part_names(listing) if listing.is_file() else []:
        manifest, section = paths.corpus / "raw" / f"{part}.json", paths.config / "ingest" / f"{part}.json"
        if not manifest.is_file() or not section.is_file():
            continue
        files = read_member(section, kind=dict).get("files") or []
        if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise InputError("the key `files` is not a list of names", where=str(section), expected=f"a list; {AGAIN}")
        digests = list(lineage.inputs_of(manifest).values())
        if files and len(files) != len(digests):
            raise InputError(
                f"this section lists {len(files)} files, but its shard was read from {len(digests)} files",
                where=str(section),
                expected="the files that the shard was read from; run the workflow again",
            )
        for name, digest in zip(files, digests, strict=False):
            is_relative |= not Path(name).is_absolute()
            if (folder / name).is_file():
                checks.append(partial(_source, folder / name, digest))
            else:
                not_present += 1
    note = f"relative paths of sources refer to the folder {folder}" if is_relative else ""
    return Count(run_checks("sources", checks), not_present, note)


def _source(path: Path, recorded: str) -> None:
    """Check a source's file. For a file that is read in pieces, the size is recorded instead of a digest."""
    if recorded.endswith(tuple("0123456789")) and " bytes, piece " in recorded:
        same = str(path.stat().st_size) == recorded.split(" ", 1)[0]
    else:
        same = digest_file(path) == recorded
    if not same:
        raise CheckFailedError(
            "the file of the source has changed",
            where=str(path),
            expected=f"the file that the corpus was made from ({recorded}); restore it, or run the workflow again",
        )
