"""Atomic folders: a folder appears complete or not at all. It is built under a temporary name next to the target and
then renamed to the target."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder


def replace_folder(source: Path, target: Path) -> None:
    """Fsync the files of `source`, rename `source` to `target`, and remove what was at `target` before.

    POSIX renames a folder only over an empty one, so an existing target is first moved aside. After a crash
    between the two renames, no folder is at `target`. `target` never contains a mixture of old and new files.
    """
    for path in source.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        elif path.is_dir():
            fsync_folder(path)
    fsync_folder(source)
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
        ResourceError: the disk is full or read-only, the quota is used up, or permission is missing.
        TryAgainError: the disk or file server has a temporary fault.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with explained(target):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            yield temporary
            replace_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
