"""Define the size and hash of a file, as the records of checkpoints, exported models and results list them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bloomery.base.digest import sha256_file
from bloomery.config.section import Count


class FileEntry(BaseModel):
    """Size and SHA-256 of one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: Count
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Read a file and return its entry.

        Raises:
            OSError: the file cannot be read.
        """
        return cls(bytes=path.stat().st_size, sha256=sha256_file(path))


def list_files(
    folder: Path, *, omit: Collection[str] = (), known: Mapping[str, FileEntry] | None = None
) -> dict[str, FileEntry]:
    """Return the entry of every file in a folder and its subfolders, by its path in the folder, in sorted order.

    Args:
        folder: folder whose files are listed.
        omit: paths in the folder of files that are left out, such as the file that holds the list.
        known: entries that are known already. These files are not read.

    Raises:
        OSError: a file cannot be read.
    """
    known = known or {}
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: known.get(name) or FileEntry.of(path) for name, path in paths.items() if name not in omit}
