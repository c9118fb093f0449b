"""Atomic folders: a folder appears complete or not at all. It is built under a temporary name next to the target and
then renamed to the target. Only one process at a time writes a target."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder
from bloomery.base.errors import TryAgainError


@contextlib.contextmanager
def only_writer(lock: Path, what: Path) -> Iterator[None]:
    """Hold the lock file `lock` as the only process that writes `what`.

    The kernel releases the lock when its holder ends, even after `kill -9`. The lock file is removed when the `with`
    block ends.

    Raises:
        TryAgainError: another process holds the lock.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise TryAgainError(
                "another process is writing this path",
                where=str(what),
                expected="one writer at a time; wait until the other process ends, then run the command again",
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                break
        # The previous holder removed the file after this process had opened it.
        os.close(descriptor)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Give every file in `folder` the permissions that the umask gives to a new file, and fsync all files and folders.

    The permissions are set because some libraries create files that only their owner may read.
    """
    mask = os.umask(0)
    os.umask(mask)
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            path.chmod(0o666 & ~mask)
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        fsync_folder(Path(root))


def replace_folder(source: Path, target: Path) -> None:
    """Sync `source` (`sync_folder`), rename `source` to `target`, and remove what was at `target` before.

    POSIX renames a folder only over an empty one, so an existing target is first moved aside. After a crash
    between the two renames, no folder is at `target`. `target` never contains a mixture of old and new files.
    """
    sync_folder(source)
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    source.rename(target)
    fsync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to `target`. On success it replaces `target`; on failure it is removed.

    Raises:
        TryAgainError: another process is writing `target`, or the disk or file server has a temporary fault.
        ResourceError: the disk is full or read-only, the quota is used up, or permission is missing.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    with explained(target), only_writer(target.with_name(f".{target.name}.lock"), target):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            yield temporary
            replace_folder(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
