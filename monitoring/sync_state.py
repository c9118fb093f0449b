"""monitoring/sync.json: how far a run's logs are on the Hub. Syncs write it; `bloomery status` reads it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths


class SyncState(BaseModel):
    """What the last successful sync left on the Hub, and what went wrong since."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = None
    repository: str | None = None
    """`owner/name`; None: nothing was ever synced."""
    commit: str | None = None
    """Holds exactly `files`, besides what others put there."""
    synced: str | None = None
    """When the last successful sync ended: UTC, ISO 8601."""
    finished: bool = False
    """Whether the training had ended before that sync began."""
    files: dict[str, int] = {}
    """Path in the repository -> bytes."""
    failures: int = 0
    """Failures in a row since."""
    failed: str | None = None
    """When the last of them was: UTC, ISO 8601."""
    error: str | None = None
    """What it said, without the token."""

    @field_validator("synced", "failed")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value


def write_sync(path: Path, state: SyncState) -> None:
    """Write the state atomically. Raises ResourceError."""
    write_json(path, state.model_dump(mode="json"))


def read_sync(path: Path) -> SyncState:
    """Read the state. Raises InputError when there is none or it is damaged."""
    try:
        return SyncState.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the state of a sync: {error}",
            where=str(path),
            expected="what `bloomery sync` writes; the next one writes it anew",
        ) from error


def failing(state: SyncState, error: str) -> SyncState:
    """Return the state after one more failure; `error` says why, without the token."""
    return state.model_copy(update={"failures": state.failures + 1, "failed": utc_now(), "error": error})


def read_state(paths: RunPaths) -> SyncState:
    """Return the state of a run's syncs; an empty one if there is none or it is damaged, so that the Hub is asked."""
    try:
        return read_sync(paths.sync_state)
    except InputError:
        return SyncState()
