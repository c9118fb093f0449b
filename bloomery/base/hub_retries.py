"""Decide which faults of a Hub are retried, when, and for how long. `bloomery.base.hub` makes the calls."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LONGEST_PAUSE_SECONDS = 60.0
_PASSING_STATUS = frozenset({408, 409, 412, 429})
"""HTTP statuses of temporary faults, in addition to 5xx. 409 and 412 mean that another commit came first."""


def pause_seconds(headers: Mapping[str, str], attempt: int) -> float:
    """Return the seconds to wait before a retry: as the Hub states (RateLimit, Retry-After), otherwise 1, 2, 4, ... up
    to 60."""
    limit = re.search(r"(?:^|;)\s*t=(\d+)", headers.get("RateLimit", ""))
    if limit:
        return float(limit.group(1)) + 1.0
    after = headers.get("Retry-After", "")
    if after.isdigit():
        return float(after)
    return min(_LONGEST_PAUSE_SECONDS, 2.0**attempt)


def passing_fault(error: Exception) -> Mapping[str, str] | None:
    """Return the response's headers (perhaps empty) if the fault may be temporary, otherwise None.

    Xet, which is written in Rust, raises the builtin ConnectionError and RuntimeError.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return error.response.headers if status in _PASSING_STATUS or status >= 500 else None
    if isinstance(error, OfflineModeIsEnabled):
        return None
    if isinstance(error, httpx2.TransportError | ConnectionError) or type(error) is RuntimeError:
        return {}
    return None


@dataclass
class RetryWindow:
    """The time in which a call is retried. It begins at the first failure, and again at a failure after progress."""

    seconds: float
    """Length of the window."""
    long_attempt_seconds: float
    """An attempt that runs longer than this counts as progress."""
    end: float = math.inf
    """Time at which the window ends, on the clock of the caller."""
    most: int = -1
    """Largest progress so far."""

    def begins_again(self, began: float, failed: float, progress: int) -> bool:
        """Record an attempt that ran from `began` to `failed`. Return whether the window begins at its failure."""
        if progress <= self.most and failed - began <= self.long_attempt_seconds:
            return False
        self.end, self.most = failed + self.seconds, max(progress, self.most)
        return True


def total_bytes(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes. Files that disappear meanwhile are left out."""
    total = 0
    for path in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
