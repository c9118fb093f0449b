"""Test that a roll-back to a named checkpoint moves newer checkpoints aside and skips no samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import stage
from ranks import run_ranks
from recorded_losses import recorded_losses
from segments import opened
from three_checkpoints import TRAINED, saved
from typer.testing import CliRunner

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.cli import app
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import read_skips
from training.resume.resolve_resume import resolve_resume
from training.resume.roll_back import roll_back
from training.resume.roll_back_to_checkpoint import RECORD_NAME, records, roll_back_to_checkpoint


def moved(paths: RunPaths, number: int) -> list[str]:
    return sorted(path.name for path in (paths.rolled_back / str(number)).glob("step*"))


def test_newer_checkpoints_move_aside_and_no_sample_is_skipped(paths: RunPaths) -> None:
    words = ["train", "roll-back", "--run", str(paths.run), "--to-checkpoint", "step00000002", "--reason", "a bad node"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "the next segment starts from step00000002 and skips no samples" in done.stderr
    assert saved(paths) == ["step00000002"]
    assert (paths.checkpoints / "latest").read_text() == "step00000002\n"
    assert moved(paths, 1) == ["step00000004", "step00000006"]
    assert read_json(paths.rolled_back / "1" / RECORD_NAME) == {
        "checkpoint": "step00000002",
        "completed": True,
        "moved": ["step00000006", "step00000004"],
        "reason": "a bad node",
    }
    now = resolve_resume(TRAINED, paths)
    assert (now.position.consumed_samples, now.stage.training.skip, read_skips(paths).skips) == (16, [], [])
    # The training saves checkpoints with the same names again. A later start must leave them where they are.
    save_manifest(paths, TRAINED, 4, 32)
    resolve_resume(TRAINED, paths)
    assert saved(paths) == ["step00000002", "step00000004"]


def test_an_interrupted_roll_back_is_completed_at_the_next_start(paths: RunPaths) -> None:
    record = {"checkpoint": "step00000002", "reason": "x", "moved": ["step00000006", "step00000004"]}
    write_json(paths.rolled_back / "1" / RECORD_NAME, record)
    (paths.checkpoints / "step00000006").rename(paths.rolled_back / "1" / "step00000006")
    assert resolve_resume(TRAINED, paths).checkpoint_name == "step00000002"
    assert moved(paths, 1) == ["step00000004", "step00000006"]
    assert records(paths)[1].completed


def test_roll_backs_with_and_without_skipped_samples_use_different_folders(paths: RunPaths) -> None:
    roll_back(paths, 40, 48, "first")
    assert roll_back_to_checkpoint(paths, "step00000002", "second") == ["step00000004"]
    save_manifest(paths, resolve_resume(TRAINED, paths).stage, 7, 64)
    roll_back(paths, 60, 64, "third")
    assert [moved(paths, number) for number in (1, 2, 3)] == [["step00000006"], ["step00000004"], ["step00000007"]]
    assert saved(paths) == ["step00000002"]


def test_a_record_cannot_move_a_folder_outside_of_the_checkpoints(paths: RunPaths) -> None:
    folder = paths.rolled_back / "1"
    folder.mkdir(parents=True)
    write_json(folder / RECORD_NAME, {"checkpoint": "step00000002", "reason": "x", "moved": ["../../config"]})
    with pytest.raises(InputError, match="not the record of a roll-back: moved"):
        resolve_resume(TRAINED, paths)
    assert saved(paths) == ["step00000002", "step00000004", "step00000006"]


def test_a_roll_back_to_the_newest_checkpoint_moves_nothing(paths: RunPaths) -> None:
    assert roll_back_to_checkpoint(paths, "step00000006", "x") == []
    assert not paths.rolled_back.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to-checkpoint", "step00000003"], "no checkpoint step00000003.*checkpoint: step00000006, step00000004"),
        ([], "either --from-sample and --to-sample"),
        (["--from-sample", "3"], "either --from-sample and --to-sample"),
        (["--from-sample", "3", "--to-sample", "9", "--to-checkpoint", "step00000002"], "or --to-checkpoint alone"),
    ],
)
def test_wrong_options_are_refused(paths: RunPaths, words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["train", "roll-back", "--run", str(paths.run), *words])
    with pytest.raises(InputError, match=says):
        raise done.exception or AssertionError
    assert saved(paths) == ["step00000002", "step00000004", "step00000006"]


def _train(configuration, folder, number):
    from training.loop.run_segment import train

    with opened(configuration, folder, number) as run:
        train(run)


@pytest.mark.distributed
@pytest.mark.slow
def test_the_losses_after_a_roll_back_equal_those_before_bit_for_bit(tmp_path: Path) -> None:
    configuration = stage(samples=88, checkpoint={"every_iterations": 3}, validation={"every_iterations": 100})
    run_ranks(_train, 1, configuration, tmp_path, 1)
    paths, metrics = RunPaths(tmp_path), tmp_path / "train/logs/metrics.jsonl"
    last, before = saved(paths)[-1], recorded_losses(metrics)
    weights = {path.name: path.read_bytes() for path in (paths.checkpoints / last).glob("layer_*")}
    roll_back_to_checkpoint(paths, "step00000003", "x")
    run_ranks(_train, 1, configuration, tmp_path, 2)
    # Iterations that were repeated are recorded twice, and `recorded_losses` requires both records to be equal.
    assert recorded_losses(metrics) == before
    assert metrics.read_text().count('"loss"') == len(before) + len(before) - 3
    assert {path.name: path.read_bytes() for path in (paths.checkpoints / last).glob("layer_*")} == weights
