"""Clock times as every file and line of ours writes them: UTC, ISO 8601, seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime) -> str:
    """A moment, such as `2026-01-31T12:00:00Z`; one without a zone is local time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_now() -> str:
    """This moment."""
    return utc_text(datetime.now(UTC))
