"""Test that sync.json is read back, and that a damaged file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from monitoring.sync_state import SyncState, read_sync, write_sync


def test_a_state_is_read_back(tmp_path: Path) -> None:
    state = SyncState(endpoint="https://h", repository="me/logs", synced="2026-11-21T11:20:00Z", files={"a": 1})
    write_sync(tmp_path / "sync.json", state)
    assert read_sync(tmp_path / "sync.json") == state


@pytest.mark.parametrize("damage", [[1], {"synced": "soon"}, {"failures": "many"}, {"unknown": 1}])
def test_a_damaged_state_is_refused_with_its_path(tmp_path: Path, damage: Any) -> None:
    write_json(tmp_path / "sync.json", damage)
    with pytest.raises(InputError, match=r"sync\.json: not the state of a sync"):
        read_sync(tmp_path / "sync.json")


def test_a_missing_and_a_truncated_state_are_refused_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sync\.json: no such file"):
        read_sync(tmp_path / "sync.json")
    (tmp_path / "sync.json").write_text("{")
    with pytest.raises(InputError, match=r"sync\.json: not valid JSON"):
        read_sync(tmp_path / "sync.json")
