"""Test the record of a preflight."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from bloomery.contracts.preflight import (
    CommunicationState,
    DiskState,
    NodeState,
    PairTime,
    Preflight,
    Problem,
    ProblemKind,
    RankState,
    Step,
    preflight_path,
    read_preflight,
    write_preflight,
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    disk = DiskState(free_bytes=7, write_mb_per_second=1.5)
    record = Preflight(
        segment=3,
        time="2026-01-31T12:00:00Z",
        seconds=1.5,
        ranks=(
            RankState(
                rank=0, local_rank=0, host="node1", node=NodeState(temporary=disk, run=disk, versions={"torch": "2"})
            ),
        ),
        communication=(
            CommunicationState(rank=0, host="node1", step=Step.PAIRS, pairs=(PairTime(peer="node2", seconds=0.5),)),
        ),
        problems=(Problem(kind=ProblemKind.SLOW, message="slow", host="node1", rank=0),),
        excluded=("node1",),
    )
    path = preflight_path(tmp_path, 3)
    write_preflight(path, record)
    assert path.name == "3.json"
    assert read_preflight(path) == record


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "3.json"
    path.write_text('{"segment": 0}')
    with pytest.raises(InputError, match="not the record of a preflight: segment: 0 is not valid"):
        read_preflight(path)
