"""Test that the folders of a run are checked before any process starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_training import make_run, stage

from bloomery.base.errors import InputError
from bloomery.contracts.segment import SAVE_FILE, STOP_FILE
from training.segments.launch import launch_segment

CONFIGURATION = stage()


@pytest.mark.parametrize(
    ("place", "is_folder"),
    [
        (f"control/{STOP_FILE}", True),
        (f"control/{SAVE_FILE}", True),
        ("logs/metrics.jsonl", True),
        ("skips.json", True),
        ("checkpoints", False),
        ("control", False),
        ("logs", False),
    ],
)
def test_a_folder_in_place_of_a_file_or_vice_versa_is_refused_before_any_process_starts(
    tmp_path: Path, place: str, is_folder: bool
) -> None:
    configuration = make_run(tmp_path, CONFIGURATION)
    path = tmp_path / "train" / place
    if is_folder:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    names = ("folder", "file") if is_folder else ("file", "folder")
    problem = "{}: this {} has the name of a {} of the run; expected: ".format(place, *names)
    with pytest.raises(InputError, match=problem) as caught:
        launch_segment(configuration, tmp_path, 1, tmp_path / "train" / "segments" / "1.json")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "train" / "starts.json").exists()
