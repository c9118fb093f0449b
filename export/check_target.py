"""Check the folder of an export before anything is read, because the export replaces the whole folder."""

from __future__ import annotations

import os
from pathlib import Path

from bloomery.base.atomic import explained
from bloomery.base.errors import InputError
from bloomery.contracts.parity import PARITY_NAME


def check_target(target: Path, source: Path) -> None:
    """Check that an export to `target` deletes nothing but an earlier export.

    Args:
        target: folder of the exported model. It may exist if it is empty or an earlier export, which has a parity.json.
        source: folder that the export reads.

    Raises:
        InputError: `target` has no name, is not a folder, is a symbolic link, holds other files, or one of `target` and
            `source` contains the other.
        ResourceError: the folder cannot be read.
    """

    def error(what: str, expected: str = "the path of a new folder (--output)") -> InputError:
        return InputError(what, where=str(target), expected=expected)

    if target.name in ("", ".."):
        raise error("this path has no name of its own", "a path that ends with the name of the new folder (--output)")
    # `Path.resolve` raises an error for a loop of symbolic links.
    real, read = (Path(os.path.realpath(path)) for path in (target, source))
    if real == read:
        raise error("the output is the folder that the export reads")
    if read.is_relative_to(real):
        raise error(f"the output contains {source}, which the export reads")
    if real.is_relative_to(read):
        raise error(f"the output is inside {source}, which the export reads")
    if target.is_symlink():
        raise error("the output is a symbolic link")
    with explained(target):
        if target.is_dir():
            if any(target.iterdir()) and not (target / PARITY_NAME).is_file():
                raise error(
                    f"the folder is neither empty nor an earlier export, because it has no {PARITY_NAME}",
                    "the path of a new folder (--output); or delete this folder to replace it",
                )
        elif target.exists():
            raise error("the output is a file")
