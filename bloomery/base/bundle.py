"""A bundle: the files of one repository, each with the digests by which a Hub names content."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.errors import CheckFailedError
from bloomery.base.folders import atomic_folder

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LocalFile:
    """A file to publish with the two digests by which a Hub names content."""

    content: Path | bytes
    size: int
    sha256: str
    """Name of large (LFS) files."""
    git_oid: str
    """Name of small files: SHA-1 of git's blob."""

    @classmethod
    def of(cls, content: Path | bytes) -> LocalFile:
        """Read a file (or bytes) once and take both digests."""
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        for chunk in _chunks(content):
            sha256.update(chunk)
            git.update(chunk)
        return cls(content, size, sha256.hexdigest(), git.hexdigest())


@dataclass(frozen=True)
class Bundle:
    """Files of one repository: path in it -> file."""

    name: str
    """The repository's name without its owner; also the folder's when no Hub is used."""
    files: dict[str, LocalFile]
    mirror: bool
    """Whether the repository shall hold nothing else: a stale weight file beside new ones would be loaded."""

    def listing(self) -> dict[str, dict[str, int | str]]:
        """Path -> size and digest, for a report."""
        return {path: {"bytes": file.size, "sha256": file.sha256} for path, file in sorted(self.files.items())}


def _chunks(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            yield chunk


def contains_token(content: Path | bytes, token: str) -> bool:
    """Whether a file holds the token, read in pieces that overlap by the token's length."""
    needle, tail = token.encode(), b""
    for chunk in _chunks(content):
        window = tail + chunk
        if needle in window:
            return True
        tail = window[-len(needle) :]
    return False


def refuse_token(bundle: Bundle, token: str) -> None:
    """Raise CheckFailedError when a file of the bundle holds the token."""
    for path, file in bundle.files.items():
        if contains_token(file.content, token):
            raise CheckFailedError(
                "holds the Hub token", where=path, expected="remove it and revoke that token; nothing was published"
            )


def copy_bundle(bundle: Bundle, folder: Path) -> None:
    """Copy a bundle into `folder`, which appears or is replaced whole.

    Raises:
        CheckFailedError: a file changed while it was copied.
        ResourceError: the folder cannot be written.
    """
    with atomic_folder(folder) as temporary:
        for path, file in bundle.files.items():
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(file.content, bytes):
                target.write_bytes(file.content)
            else:
                shutil.copyfile(file.content, target)
            if LocalFile.of(target).sha256 != file.sha256:
                raise CheckFailedError("changed while it was copied", where=str(file.content), expected="publish again")
