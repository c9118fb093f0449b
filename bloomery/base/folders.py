"""Folders that appear whole or not at all: built under a temporary name beside the target, then renamed over it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import explained, fsync_folder


def replace_folder(source: Path, target: Path) -> None:
    """Rename `source` over `target`, its files made durable first; what was at `target` is removed afterwards.

    POSIX renames a folder only over an empty one, so an old target is first moved aside: a crash between the two
    renames leaves no target, never a mixed one.
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
    """Yield an empty folder beside `target`; on success it replaces `target`, on failure it is removed.

    Raises:
        ResourceError: disk full, quota, read-only or no permission.
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
