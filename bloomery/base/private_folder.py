"""Create a folder that only this user can read and change, below a folder that several users share."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import ResourceError


def make_private_folder(path: Path) -> None:
    """Create `path` with mode 700. If it exists, check that this user owns it and that no other user may write to it.

    Another user may have made a folder or a link of this name, to read the files in it or to replace compiled code.

    Raises:
        ResourceError: the folder belongs to another user, other users may write to it, it is a link or a file, or it
            cannot be created.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or shared:
        raise ResourceError(
            "the folder for temporary files belongs to another user, other users may write to it, or it is a link or a "
            "file",
            where=str(path),
            expected="a folder of your own that only you may write to; remove this folder, so that the next job "
            "creates it, or set another folder as `scratch` in the file of the site",
        )
