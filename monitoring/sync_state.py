"""monitoring/sync.json: state of a run's logs on the Hub. Syncs write the file; `bloomery status` reads it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.base.times import utc_now
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.paths import RunPaths


class SyncState(BaseModel):
    """Result of the last successful sync, and the failures since then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = None
    repository: str | None = None
    """Repository as `owner/name`; None if no sync has succeeded."""
    commit: str | None = None
    """Commit of the last successful sync. It contains the files in `files`, and files that others added."""
    synced: str | None = None
    """Time when the last successful sync ended: UTC, ISO 8601."""
    finished: bool = False
    """Whether the training ended before the last successful sync began."""
    files: dict[str, int] = {}
    """Size in bytes of each file of the last successful sync, by its path in the repository."""
    failures: int = 0
    """Number of failures in a row since the last successful sync."""
    failed: str | None = None
    """Time of the last failure: UTC, ISO 8601."""
    error: str | None = None
    """Message of the last failure, without the access token."""

    @field_validator("synced", "failed")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value


def write_sync(path: Path, state: SyncState) -> None:
    """Write the state atomically. Raises ResourceError if the file cannot be written."""
    write_json(path, state.model_dump(mode="json"))


def read_sync(path: Path) -> SyncState:
    """Read the state. Raises InputError if the file is missing or damaged."""
    try:
        return SyncState.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the state of a sync: {wrong_values(error, SyncState)}",
            where=str(path),
            expected="a file that `bloomery sync` wrote; the next sync replaces the damaged file",
        ) from error


def failing(state: SyncState, error: str) -> SyncState:
    """Return the state after one more failure; `error` is its message, without the access token."""
    return state.model_copy(update={"failures": state.failures + 1, "failed": utc_now(), "error": error})


def read_state(paths: RunPaths) -> SyncState:
    """Return the state of a run's syncs.

    If the file is missing or damaged, return an empty state, so that the next sync asks the Hub for everything that it
    needs.
    """
    try:
        return read_sync(paths.sync_state)
    except InputError:
        return SyncState()
