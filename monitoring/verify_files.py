"""Check files against recorded digests, for `monitoring.verify_run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import track

AGAIN = "restore this file from a copy, or delete it and run the workflow again"
"""How a user gets an undamaged file."""
_THREADS = min(16, max(4, os.cpu_count() or 4))
"""Number of files that are read at the same time. Hashing releases Python's global interpreter lock."""


@dataclass(frozen=True)
class Count:
    """Result of a check: how many files it read, and how many do not exist."""

    files: int = 0
    """Number of files that were read."""
    not_present: int = 0
    """Number of files that do not exist and were not verified. A missing file counts here only if no proof of a model
    needs the file. Otherwise, it is an error."""
    note: str = ""
    """Remark on the check for the user. It may be empty."""

    def __add__(self, other: Count) -> Count:
        note = "; ".join(filter(None, (self.note, other.note)))
        return Count(self.files + other.files, self.not_present + other.not_present, note)


def run_checks(title: str, checks: Iterable[Callable[[], object]]) -> int:
    """Run the checks of many files in threads and return their number. Show the progress under the title.

    The first error in the order of the checks is raised.
    """
    listed = list(checks)
    if not listed:
        return 0
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        running = [pool.submit(check) for check in listed]
        try:
            for done in track(running, f"verify {title}", len(running), "files"):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return len(listed)


def differs(path: Path, expected: str) -> CheckFailedError:
    """Return the error for a file that changed."""
    return CheckFailedError("the file changed after it was written", where=str(path), expected=f"{expected}; {AGAIN}")


def check_digest(path: Path, digest: str) -> None:
    """Compare a file with its digest.

    Raises:
        CheckFailedError: the file is missing or differs.
    """
    if not path.is_file():
        raise CheckFailedError("the file is missing", where=str(path), expected=f"digest {digest}; {AGAIN}")
    if digest_file(path) != digest:
        raise differs(path, f"digest {digest}")
