"""Find the git commit of the source code without starting git."""

from __future__ import annotations

import functools
import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@functools.cache
def source_commit() -> str | None:
    """Return the commit that the running copy of Bloomery is a checkout of. None if it is not a git checkout.

    Uncommitted changes are not detected.
    """
    return commit_of(Path(__file__).resolve().parents[2])


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in `folder`. None if `folder` is not the top of a readable git checkout.

    The layout of the files is that of gitrepository-layout(5) and git-worktree(1): HEAD names a commit or a reference,
    and a reference is in its own file or in `packed-refs`.
    """
    try:
        own = folder / ".git"
        if own.is_file():
            # In a linked worktree or a submodule, `.git` is a file with the path of git's folder.
            own = folder / own.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        shared = own / "commondir"
        common = own / shared.read_text(encoding="utf-8").strip() if shared.is_file() else own
        head = (own / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return _checked(head)
        reference = head.removeprefix("ref:").strip()
        for place in (own / reference, common / reference):
            if place.is_file():
                return _checked(place.read_text(encoding="utf-8").strip())
        for line in (common / "packed-refs").read_text(encoding="utf-8").splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return _checked(commit)
    except (OSError, UnicodeDecodeError):
        # A manifest without a commit is better than a failed save.
        return None
    return None


def _checked(text: str) -> str | None:
    """Return `text` if it is a commit id (SHA-1 or SHA-256 in hexadecimal), and None if not."""
    return text if _COMMIT.fullmatch(text) else None
