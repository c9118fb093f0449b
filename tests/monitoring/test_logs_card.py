"""Test the card of the published logs."""

from __future__ import annotations

import pytest
from segment_file import segment

from bloomery.base.atomic import write_json
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, write_segment
from monitoring.logs_card import logs_card
from monitoring.snapshot import take_snapshot


@pytest.fixture
def paths(tmp_path):
    found = RunPaths(tmp_path / "runs" / "tiny")
    found.logs.mkdir(parents=True)
    return found


def test_the_card_tolerates_damaged_files_and_depends_only_on_the_files(paths, tmp_path):
    (paths.logs / "metrics.jsonl").write_text("no record\n")
    write_json(paths.segments / "1.json", {"number": 1})
    write_segment(paths.segments / "2.json", segment(2, SegmentStatus.CRASHED))
    files = take_snapshot(paths, tmp_path / "copy", finished=False)
    page = logs_card("tiny", "tiny-bloom", files, None, None, finished=False)
    assert "| state | before training |" in page
    assert "| 2 | crashed after iteration 20 |" in page
    assert page == logs_card("tiny", "tiny-bloom", files, None, None, finished=False)


def test_names_are_shown_literally():
    page = logs_card("a`b|\n# c", "<b>|x", {}, None, None, finished=False)
    assert "# Logs of the run `` a`b\\| # c ``\n" in page
    assert "the training of `<b>\\|x`." in page


def test_a_training_that_is_out_of_date_is_marked():
    page = logs_card("a", "b", {}, None, None, finished=True, stale="Out of date: the training.")
    assert "**Out of date: the training.**\n" in page
    assert "Out of date" not in logs_card("a", "b", {}, None, None, finished=True)
