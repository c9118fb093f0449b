"""A bundle: the files of one repository, each with the digests that a Hub uses to identify content."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import CheckFailedError

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LocalFile:
    """A file to publish, with the two digests that a Hub uses to identify content."""

    content: Path | bytes
    size: int
    sha256: str
    """SHA-256 of the content, which identifies large (LFS) files on the Hub."""
    git_oid: str
    """SHA-1 of the git blob, which identifies small files on the Hub."""

    @classmethod
    def of(cls, content: Path | bytes) -> LocalFile:
        """Read a file (or bytes) once and compute both digests."""
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        for chunk in _chunks(content):
            sha256.update(chunk)
            git.update(chunk)
        return cls(content, size, sha256.hexdigest(), git.hexdigest())


@dataclass(frozen=True)
class Bundle:
    """The files of one repository, by their path in the repository."""

    name: str
    """Name of the repository without its owner. It is also the folder's name if no Hub is used."""
    files: dict[str, LocalFile]
    mirror: bool
    """Whether to delete all other files of the repository. If an old weight file stayed, transformers could load it
    together with the new ones."""

    def listing(self) -> dict[str, dict[str, int | str]]:
        """Return the size and digest of each file by its path, for a report."""
        return {path: {"bytes": file.size, "sha256": file.sha256} for path, file in sorted(self.files.items())}


def _chunks(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            yield chunk


def contains_token(content: Path | bytes, token: str) -> bool:
    """Return whether a file contains the token. The file is read in chunks that overlap by the token's length."""
    needle, tail = token.encode(), b""
    for chunk in _chunks(content):
        window = tail + chunk
        if needle in window:
            return True
        tail = window[-len(needle) :]
    return False


def refuse_token(bundle: Bundle, token: str) -> None:
    """Raise CheckFailedError if a file of the bundle contains the token."""
    for path, file in bundle.files.items():
        if contains_token(file.content, token):
            raise CheckFailedError(
                "the file contains the Hub token",
                where=path,
                expected="a file without the token; nothing was published. Remove the token from the file, and revoke "
                "it on the Hub",
            )


def copy_bundle(bundle: Bundle, folder: Path) -> None:
    """Copy a bundle into the new folder `folder`.

    Raises:
        CheckFailedError: a file changed while it was copied.
        ResourceError: the folder cannot be written.
    """
    with explained(folder):
        for path, file in bundle.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(file.content, bytes):
                target.write_bytes(file.content)
            else:
                shutil.copyfile(file.content, target)
            if LocalFile.of(target).sha256 != file.sha256:
                raise CheckFailedError(
                    "the file changed while it was copied",
                    where=str(file.content),
                    expected="a file that does not change; publish again",
                )
