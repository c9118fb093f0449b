"""Test which segment of a training the workflow runs next."""

from __future__ import annotations

from pathlib import Path

import pytest
from snakemake.exceptions import WorkflowError

from bloomery.base.errors import InputError
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from bloomery.orchestration.segment_chain import next_segment


def segment_file(folder: Path, number: int, status: SegmentStatus) -> str:
    path = folder / f"{number}.json"
    segment = Segment(
        number=number,
        status=status,
        first_iteration=1,
        iteration=5,
        total_iterations=10,
        consumed_samples=40,
        consumed_tokens=1280,
        checkpoint=None,
        identity="x",
    )
    write_segment(path, segment)
    return str(path)


def test_a_chain_begins_with_segment_1() -> None:
    assert next_segment([], 3) == 1


@pytest.mark.parametrize("status", [status for status in SegmentStatus if status is not SegmentStatus.FINISHED])
def test_an_unfinished_training_gets_another_segment(tmp_path: Path, status: SegmentStatus) -> None:
    assert next_segment([segment_file(tmp_path, 1, status)], 3) == 2


def test_a_finished_training_ends_the_chain_even_at_max_segments(tmp_path: Path) -> None:
    chain = [
        segment_file(tmp_path, 1, SegmentStatus.TIME_LIMIT),
        segment_file(tmp_path, 2, SegmentStatus.FINISHED),
    ]
    assert next_segment(chain, 2) is None
    assert next_segment(chain, 5) is None


def test_a_chain_at_max_segments_is_refused_with_the_key_of_the_limit(tmp_path: Path) -> None:
    chain = [segment_file(tmp_path, number, SegmentStatus.TIME_LIMIT) for number in (1, 2)]
    with pytest.raises(WorkflowError) as caught:
        next_segment(chain, 2)
    expected = "the training is not finished after 2 segments; expected: a larger training.segment.max_segments"
    assert str(caught.value) == expected


def test_an_invalid_segment_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{}")
    with pytest.raises(InputError, match="not the record of a training segment"):
        next_segment([str(tmp_path / "1.json")], 3)
