"""Symbolic and hard links that are made or replaced atomically."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bloomery.base.atomic import fsync_folder
from bloomery.base.progress import say

_NO_HARD_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of `os.link` if a hard link is impossible: the file is on another file system, belongs to another user or has
too many links, or its file system has no hard links."""


def link_atomically(link: Path, target: str | Path) -> None:
    """Make `link` a link to `target` by a rename, so that an existing link is never missing.

    A file or folder at the path of the link is replaced, such as one that an earlier version of Bloomery wrote.
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


def link_files(linked: Mapping[str, Path], folder: Path) -> None:
    """Make a hard link to each file of `linked` in `folder`, so that the folder keeps the content of these files.

    A symbolic link, such as a link to an adopted token file, is copied as a link to the same target. Where hard links
    are impossible, the folder gets a symbolic link, which does not keep the content, and a message says so. A file that
    `folder` already has at one of these paths is replaced.

    Args:
        linked: path of each file, by the path of its link in `folder`.
        folder: folder of the links. Its subfolders are made.
    """
    symbolic = 0
    for name, path in linked.items():
        link = folder / name
        if link.exists() and link.samefile(path) and link.is_symlink() == path.is_symlink():
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        temporary = link.with_name(f".{link.name}.link")
        temporary.unlink(missing_ok=True)
        if path.is_symlink():
            temporary.symlink_to(path.parent.absolute() / path.readlink())
        else:
            try:
                os.link(path, temporary)
            except OSError as error:
                if error.errno not in _NO_HARD_LINK:
                    raise
                temporary.symlink_to(os.path.relpath(path.resolve(), link.parent.resolve()))
                symbolic += 1
        temporary.replace(link)
    for parent in {(folder / name).parent for name in linked}:
        fsync_folder(parent)
    if symbolic:
        say(
            f"{folder}: the file system allows no hard links, so symbolic links were made instead (number: "
            f"{symbolic}); a symbolic link breaks if the file to which it leads is deleted"
        )
