"""Compare files with their recorded digests, in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bloomery.base.digest import digest_file
from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import track

AGAIN = "restore this file from a copy, or delete it and run the workflow again"
"""What to do about a file that changed."""
_THREADS = 4


def differs(path: Path, expected: str) -> CheckFailedError:
    """Return the error for a file that does not have the content `expected`."""
    return CheckFailedError("the file changed after it was written", where=str(path), expected=f"{expected}; {AGAIN}")


def check_all(name: str, jobs: Iterable[Callable[[], object]]) -> int:
    """Run the checks of many files in threads and return their number. The first failure in order is raised."""
    listed = list(jobs)
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        running = [pool.submit(job) for job in listed]
        try:
            for done in track(running, f"verify {name}", len(running), "files"):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return len(listed)


def check_digest(path: Path, digest: str) -> None:
    """Check a file's digest (`bloomery.base.digest.digest_file`).

    Raises:
        CheckFailedError: the file is missing or has another digest.
    """
    if not path.is_file():
        raise CheckFailedError("the file is missing", where=str(path), expected=f"digest {digest}; {AGAIN}")
    if digest_file(path) != digest:
        raise differs(path, f"digest {digest}")
