"""Test that a roll-back stores the skipped samples and moves checkpoints trained on them aside.

The next start completes an interrupted roll-back.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run
from three_checkpoints import TRAINED, saved
from typer.testing import CliRunner

from bloomery.base.atomic import write_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.cli import app
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from bloomery.contracts.skips import effective, read_skips
from training.resume.add_skip import add_skip
from training.resume.resolve_resume import resolve_resume
from training.resume.roll_back import RollBack, roll_back, roll_backs


def test_a_roll_back_selects_the_newest_checkpoint_before_the_range(paths: RunPaths) -> None:
    done = roll_back(paths, 35, 50, "a spike at iteration 6")
    assert done == RollBack("step00000004", 35, 50)
    assert saved(paths) == ["step00000002", "step00000004"]
    assert (paths.checkpoints / "latest").read_text() == "step00000004\n"
    assert (paths.rolled_back / "1" / "step00000006" / "manifest.json").is_file()
    now = resolve_resume(TRAINED, paths).stage
    assert [(each.from_sample, each.to_sample) for each in now.training.skip] == [(35, 50)]
    assert roll_backs(paths) == 1
    # A new checkpoint after the range stays, because its training has skipped the range.
    save_manifest(paths, now, 6, 48 + 15)
    resolve_resume(TRAINED, paths)
    assert saved(paths) == ["step00000002", "step00000004", "step00000006"]


def test_an_interrupted_roll_back_is_completed_at_the_next_start(paths: RunPaths) -> None:
    add_skip(paths, 20, 30, "a spike", roll_back=True)
    resolve_resume(TRAINED, paths)
    assert saved(paths) == ["step00000002"]
    assert (paths.checkpoints / "latest").read_text() == "step00000002\n"
    assert sorted(path.name for path in (paths.rolled_back / "1").iterdir()) == ["step00000004", "step00000006"]
    resolve_resume(TRAINED, paths)
    assert saved(paths) == ["step00000002"], "a second start must change nothing"


def test_a_second_roll_back_gets_its_own_folder(paths: RunPaths) -> None:
    roll_back(paths, 40, 48, "first")
    save_manifest(paths, effective(TRAINED, paths), 5, 56)
    assert roll_back(paths, 50, 60, "second") == RollBack("step00000004", 50, 60)
    assert sorted(path.parent.name for path in paths.rolled_back.glob("*/step*")) == ["1", "2"]
    assert roll_backs(paths) == 2


def test_without_a_checkpoint_before_the_range_the_oldest_within_it_is_used(paths: RunPaths) -> None:
    done = roll_back(paths, 5, 42, "a spike at iteration 6")
    assert done == RollBack("step00000002", 16, 42)
    assert saved(paths) == ["step00000002"]


def test_a_roll_back_before_all_checkpoints_is_refused(paths: RunPaths) -> None:
    with pytest.raises(CheckFailedError, match="before sample 12 exists; the oldest checkpoint is step00000002"):
        roll_back(paths, 4, 12, "a spike at iteration 1")
    assert saved(paths) == ["step00000002", "step00000004", "step00000006"]
    assert not paths.skips.exists()


def test_without_any_checkpoint_training_restarts_without_the_range(tmp_path: Path) -> None:
    make_run(tmp_path, TRAINED)
    assert roll_back(RunPaths(tmp_path), 4, 12, "a spike") == RollBack(None, 4, 12)
    assert len(resolve_resume(TRAINED, RunPaths(tmp_path)).stage.training.skip) == 1


def test_a_user_can_roll_back_a_finished_training(paths: RunPaths) -> None:
    ended = [paths.segments / f"{number}.json" for number in (1, 2)]
    for number, status in enumerate((SegmentStatus.TIME_LIMIT, SegmentStatus.FINISHED), start=1):
        segment = Segment(
            number=number,
            status=status,
            first_iteration=1,
            iteration=6,
            total_iterations=6,
            consumed_samples=48,
            consumed_tokens=48,
            checkpoint="step00000006",
            identity="x",
        )
        write_segment(ended[number - 1], segment)
    write_segment(paths.finished, segment)
    words = ["train", "roll-back", "--run", str(paths.run), "--from-sample", "35", "--to-sample", "50"]
    done = CliRunner().invoke(app, [*words, "--reason", "gradients of a broken dump"])
    assert done.exit_code == 0, done.output
    assert "the next segment starts from step00000004 and skips samples 35 to 49" in done.stderr
    assert saved(paths) == ["step00000002", "step00000004"]
    assert read_skips(paths).skips[0].reason == "gradients of a broken dump"
    # Removed segment files make the workflow continue the training.
    assert [path.exists() for path in (*ended, paths.finished)] == [True, False, False]
    assert roll_backs(paths) == 0, "a roll-back by a user must not count toward guards.max_roll_backs"
    # The index has 128 samples, 64 more than the training reads.
    for begin, end in ((120, 129), (128, 140), (50, 50)):
        beyond = [*words[:4], "--from-sample", str(begin), "--to-sample", str(end)]
        done = CliRunner().invoke(app, beyond)
        assert f"samples {begin} to {end} are not a valid range of this training" in str(done.exception)
        assert "values from 0 to 128, with --from-sample below --to-sample" in str(done.exception)
    assert len(read_skips(paths).skips) == 1
    words[3] = str(paths.run / "no")
    assert CliRunner().invoke(app, words).exit_code == 1
    assert not (paths.run / "no").exists()


@pytest.mark.parametrize("ends", [(9, 4), (-9, 4)])
def test_a_damaged_list_of_skips_is_refused(paths: RunPaths, ends: tuple[int, int]) -> None:
    write_json(paths.skips, {"skips": [{"from_sample": ends[0], "to_sample": ends[1], "reason": "by hand"}]})
    with pytest.raises(InputError, match="not a list of skipped samples"):
        read_skips(paths)
