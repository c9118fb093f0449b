"""Times in the format of all files and log lines of this project: UTC, ISO 8601, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime) -> str:
    """Format a time, such as `2026-01-31T12:00:00Z`. A time without a zone is taken as local time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_now() -> str:
    """Return the current time as text."""
    return utc_text(datetime.now(UTC))
