"""Verify the token files of a run: those of the index, and those from which the next index will be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bloomery.base.errors import CheckFailedError
from bloomery.base.json_member import read_member
from bloomery.base.self_digest import check_file
from bloomery.contracts.index_manifest import read_index_manifest, resolve_index
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names
from bloomery.orchestration.prepare_run import TOKEN_FILES_NAME
from monitoring.verify_files import AGAIN, Count, check_digest, run_checks


def verify_token_files(paths: RunPaths) -> Count:
    """Check the token files of the index and their tables of documents.

    Raises:
        CheckFailedError: a file is missing or changed, or the index was built from other token files.
        InputError: a file cannot be read.
    """
    if not paths.index_manifest.is_file():
        return Count()
    manifest = read_index_manifest(paths.index_manifest)
    listed = read_part_names(paths.config / TOKEN_FILES_NAME)
    # An index of an earlier version has no links to the token files. Its index.json names the files in `index/tokens`.
    folder = resolve_index(paths.index)
    if [entry.name for entry in manifest.token_files] != listed:
        raise CheckFailedError(
            "the index was built from other token files",
            where=str(paths.config / TOKEN_FILES_NAME),
            expected=f"the {len(manifest.token_files)} pairs that index.json lists; run the workflow again",
        )
    checks: list[Callable[[], object]] = []
    for entry, name in zip(manifest.token_files, listed, strict=True):
        digests = {".bin": entry.bin_digest, ".idx": entry.idx_digest, ".documents.parquet": entry.sidecar_digest}
        for suffix, digest in digests.items():
            checks.append(partial(check_digest, folder / f"{entry.prefix}{suffix}", digest))
        checks.append(partial(check_file, folder / f"{entry.prefix}.documents.json", restore=AGAIN))
        checks += _encoded(paths.index / "tokens" / name, folder / entry.prefix)
    return Count(run_checks("token files", checks))


def _encoded(prefix: Path, linked: Path) -> Iterator[Callable[[], None]]:
    """Yield the checks of the encoded or adopted pair from which the next index will be built.

    Usually, these files are the same as those of the index (hard links) and need not be read twice. They are different
    files in a copy of the run, and after the pair was encoded again for a later index. Their manifest and sidecar are
    checked with the other tables.
    """
    manifest = prefix.with_name(f"{prefix.name}.documents.json")
    if manifest.is_file():
        counts = read_member(manifest, "counts", kind=dict)
        for suffix, digest in ((".bin", counts["bin_digest"]), (".idx", counts["idx_digest"])):
            path, other = (each.with_name(each.name + suffix) for each in (prefix, linked))
            if path.is_file() and not (other.is_file() and path.samefile(other)):
                yield partial(check_digest, path, digest)
