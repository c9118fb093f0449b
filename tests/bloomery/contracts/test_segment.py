"""Test the file that records how a segment ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, clear_request, read_segment, write_segment


def test_a_segment_is_read_back(tmp_path: Path) -> None:
    segment = Segment(
        number=2,
        status=SegmentStatus.TIME_LIMIT,
        first_iteration=11,
        iteration=20,
        total_iterations=40,
        consumed_samples=160,
        consumed_tokens=1280,
        checkpoint="step00000020",
        identity="abc",
    )
    write_segment(tmp_path / "2.json", segment)
    assert read_segment(tmp_path / "2.json") == segment
    (tmp_path / "2.json").write_text('{"number": 2}')
    with pytest.raises(InputError, match="not the record of a training segment"):
        read_segment(tmp_path / "2.json")


def test_a_handled_request_is_removed(tmp_path: Path) -> None:
    request = tmp_path / STOP_FILE
    clear_request(request)
    request.touch()
    clear_request(request)
    assert not request.exists()
    request.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        clear_request(request)


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint": "../../evil"},
        {"checkpoint": "/etc"},
        {"iteration": -1},
        {"number": 10**30},
        {"total_iterations": True},
    ],
)
def test_a_segment_with_an_impossible_value_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    values = {
        "number": 1,
        "status": "finished",
        "checkpoint": "step00000020",
        "identity": "abc",
        **dict.fromkeys(("first_iteration", "iteration", "total_iterations", "consumed_samples", "consumed_tokens"), 1),
    }
    write_json(tmp_path / "1.json", values)
    assert read_segment(tmp_path / "1.json").number == 1
    write_json(tmp_path / "1.json", values | change)
    with pytest.raises(InputError, match=r"1\.json: not "):
        read_segment(tmp_path / "1.json")
