"""Test that a training after any interruption has the losses of an undisturbed one, bit for bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time

import pytest
from fabricated_training import change_blend, make_run, stage
from training_launcher import Launcher
from waiting import wait_for

from bloomery.contracts.checkpoint import read_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SHAPE = {"tensor": 1, "pipeline": 2, "samples": 280, "dropout": {"attention": 0.1, "hidden": 0.1}}
REPLICAS = {"tensor": 1, "pipeline": 1, "data": 2, "samples": 280}
RANKS = 2
"""Number of ranks of each shape."""
KILL_SEED = os.environ.get("BLOOMERY_KILL_SEED", "0")
"""Seed for the random times at which the tests kill processes. Another seed gives other times."""


def _finished(run, shape) -> Launcher:
    launcher = Launcher(run, make_run(run, stage(**shape)))
    assert launcher.segment()["status"] == "finished"
    return launcher


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return _finished(tmp_path_factory.mktemp("undisturbed") / "run", SHAPE)


@pytest.fixture(scope="module")
def undisturbed(finished):
    return finished.losses()


def _ranks_of(run) -> list[int]:
    found = []
    for folder in os.listdir("/proc"):  # noqa: PTH208
        if folder.isdigit():
            try:
                with open(f"/proc/{folder}/cmdline", "rb") as handle:  # noqa: PTH123
                    command = handle.read()
            except OSError:
                continue
            if b"training.loop.main" in command and str(run.run).encode() in command:
                found.append(int(folder))
    return found


def _kill(run, process) -> None:
    """Kill the launcher and every rank, so that no process can clean up."""
    for each in (*_ranks_of(run), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.communicate()


def _kill_in_a_save(run, process) -> None:
    """Kill all processes while an incomplete checkpoint is on the disk."""

    def is_saving() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return any((run.run / "train" / "checkpoints" / ".saving").glob("step*/*"))
        return False

    # The command line of torchrun names the same program, so torchrun is counted like a rank.
    wait_for(lambda: len(_ranks_of(run)) > RANKS, process=process, every=0.1)
    ranks = _ranks_of(run)
    while True:
        wait_for(is_saving, 600, process, every=0.002)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        if is_saving():
            return _kill(run, process)
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)


def _kill_launcher(run, process) -> None:
    """Kill only the launcher. Its ranks must end soon after it."""
    process.send_signal(signal.SIGKILL)
    # `communicate` would wait for the end of training, because the ranks hold the pipe.
    process.wait()
    # This fails if ranks outlive their launcher.
    wait_for(lambda: not _ranks_of(run), 20, every=0.1)
    assert "finished after iteration" not in (run.run / "train/logs/main_log.txt").read_text()
    process.stdout.close()


@pytest.mark.parametrize(
    ("asynchronous", "shape", "kill"),
    [(False, REPLICAS, _kill), (True, SHAPE, _kill_launcher)],
    ids=["replicas", "stages-by-their-launcher"],
)
def test_killed_training_resumes_with_the_same_losses(launcher, undisturbed, tmp_path, asynchronous, shape, kill):
    drawn = random.Random(f"{KILL_SEED} {asynchronous}")
    # A save begins only after the previous one is complete. So by iteration 5 there is a checkpoint, even on a slow
    # disk. After iteration 14 of 19, there are still saves during which to kill the processes.
    iteration, pause_seconds = drawn.randint(5, 14), drawn.uniform(0, 0.1)
    print(f"BLOOMERY_KILL_SEED={KILL_SEED}: killed {pause_seconds:.3f} s after iteration {iteration}")
    run = launcher("killed", checkpoint={"every_iterations": 2, "asynchronous": asynchronous}, **shape)
    process = run.start()
    run.wait_for_iteration(iteration, process)
    time.sleep(pause_seconds)
    kill(run, process)
    process = run.start()
    _kill_in_a_save(run, process)
    segment = run.segment()
    assert segment["status"] == "finished"
    assert segment["first_iteration"] > 1
    if shape is not SHAPE:
        undisturbed = _finished(tmp_path / "undisturbed", shape).losses()
    assert run.losses() == undisturbed
    assert not list((run.run / "train" / "checkpoints").glob(".*"))


def test_training_saves_and_ends_on_sigterm_or_a_stop_file_and_the_same_command_resumes(launcher, undisturbed):
    run = launcher("stopped", **SHAPE)
    process = run.start()
    run.wait_for_iteration(4, process)
    process.send_signal(signal.SIGTERM)
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 75, talk
    assert "run the same command again" in talk
    assert not (run.run / "train" / "segments" / "1.json").exists()
    stopped = json.loads((run.run / "train" / "segments" / "history" / "1-1.json").read_text())
    assert stopped["status"] == "stopped"
    assert stopped["checkpoint"] == f"step{stopped['iteration']:08d}"
    process = run.start()
    run.wait_for_iteration(stopped["iteration"] + 1, process)
    (run.run / "train" / "control" / "stop").touch()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 75, talk
    assert not (run.run / "train" / "control" / "stop").exists()
    again = json.loads((run.run / "train" / "segments" / "history" / "1-2.json").read_text())
    assert (again["status"], again["first_iteration"]) == ("stopped", stopped["iteration"] + 1)
    segment = run.segment()
    assert segment["status"] == "finished"
    assert segment["first_iteration"] == again["iteration"] + 1
    assert run.losses() == undisturbed


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """Train one segment with a time limit that is too short. Tests must `_copy` the training before they resume it."""
    folder = tmp_path_factory.mktemp("limited") / "run"
    launcher = Launcher(folder, make_run(folder, stage(segment={"minutes": 0.001}, **SHAPE)))
    first = launcher.segment(1)
    assert first["status"] == "time_limit"
    assert first["iteration"] == 1, "a segment trains one iteration even if its time limit is too short"
    return launcher


def _copy(launcher, folder) -> Launcher:
    """Copy the training to its own folder."""
    shutil.copytree(launcher.run, folder, symlinks=True)
    return Launcher(folder, folder / launcher.config.relative_to(launcher.run))


def _damage(checkpoint) -> None:
    victim = next(checkpoint.glob("layer_*"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(bytes(data))


def test_time_limits_make_a_chain_of_segments_and_a_damaged_checkpoint_is_skipped(limited, undisturbed, tmp_path):
    run = _copy(limited, tmp_path / "damaged")
    checkpoints = run.run / "train" / "checkpoints"
    first, second = json.loads((run.run / "train/segments/1.json").read_text()), run.segment(2)
    assert (second["status"], second["first_iteration"]) == ("time_limit", first["iteration"] + 1)
    _damage(checkpoints / second["checkpoint"])
    make_run(run.run, stage(**SHAPE))  # the time limit may change between segments
    process = run.start(3)
    talk, _ = process.communicate(timeout=300)
    assert process.returncode == 0, talk
    assert f"checkpoint {second['checkpoint']} is skipped, because it is damaged" in talk
    assert f"resuming after iteration {first['iteration']} " in talk
    third = json.loads((run.run / "train/segments/3.json").read_text())
    assert (third["status"], third["first_iteration"]) == ("finished", first["iteration"] + 1)
    assert run.losses() == undisturbed
    for checkpoint in checkpoints.glob("step*"):
        _damage(checkpoint)
    # A segment that has finished the training is not run again.
    for record in ("3.json", "history/3-1.json"):
        (run.run / "train/segments" / record).unlink()
    process = run.start(3)
    talk, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "every checkpoint is damaged" in talk.splitlines()[-1]


def test_a_changed_training_is_refused_or_resumes_or_starts_again_with_the_old_one_archived(launcher):
    run = launcher("changed", **SHAPE | {"samples": 64})
    old = run.segment()
    changed = stage(**SHAPE | {"samples": 64}, optimizer={"learning_rate": 0.02})
    make_run(run.run, changed)
    process = run.start()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "training.optimizer.learning_rate: 0.01 -> 0.02" in talk
    assert "    training:\n      on_change: continue\n" in talk
    assert "    training:\n      on_change: restart\n" in talk
    # Resume on another layout, with more samples.
    further = {"pipeline": 1, "data": 2, "samples": 96, "optimizer": {"learning_rate": 0.02}}
    make_run(run.run, stage(**SHAPE | further, on_change="continue"))
    process = run.start()
    talk, _ = process.communicate(timeout=300)
    assert process.returncode == 0, talk
    assert f"the training resumes from {old['checkpoint']} with these changed configuration keys:" in talk
    assert "  training.parallel.pipeline: 2 -> 1 (may change: at a boundary)" in talk
    assert f"resuming after iteration {old['iteration']} " in talk
    longer = json.loads((run.run / "train" / "segments" / "1.json").read_text())
    assert (longer["status"], longer["consumed_samples"]) == ("finished", 88), (
        "training reads only whole batches: 3 of 8 samples and 4 of 16"
    )
    manifest = read_checkpoint(run.run / "train" / "checkpoints" / longer["checkpoint"])
    recorded = {change.key: (change.iteration, change.before, change.after) for change in manifest.changes}
    assert recorded["training.optimizer.learning_rate"] == (old["iteration"], 0.01, 0.02)
    assert recorded["training.parallel.data"] == (old["iteration"], 1, 2)
    make_run(run.run, stage(**SHAPE | {"samples": 64}, optimizer={"learning_rate": 0.03}, on_change="restart"))
    new = run.segment()
    assert new["first_iteration"] == 1
    assert list((run.run / "train" / "archive").glob(f"*/checkpoints/{longer['checkpoint']}/manifest.json"))


def test_training_resumes_if_the_weights_change_only_later_samples(limited, undisturbed, tmp_path):
    run = _copy(limited, tmp_path / "mixed")
    first = json.loads((run.run / "train/segments/1.json").read_text())
    change_blend(run.run, first["consumed_samples"])
    make_run(run.run, stage(**SHAPE, on_change="refuse"))
    second = run.segment(2)
    assert second["status"] == "finished"
    assert second["first_iteration"] == first["iteration"] + 1
    losses = run.losses()
    assert losses[1] == undisturbed[1]
    assert losses[2] != undisturbed[2]


def test_a_finished_training_has_nothing_left_to_do(finished):
    first = json.loads((finished.run / "train" / "segments" / "1.json").read_text())
    losses = finished.losses()
    again = finished.segment()
    assert again["status"] == "finished"
    assert again["checkpoint"] == first["checkpoint"]
    assert finished.losses() == losses


def test_a_damaged_index_is_named_and_not_retried(launcher):
    run = launcher("broken", **SHAPE | {"samples": 64}, segment={"max_restarts_without_progress": 2})
    array = run.run / "index" / "arrays" / "blend-sample.npy"
    good = array.read_bytes()
    for damaged, reason in ((b"nonsense", "not a readable array"), (good[:-1] + b"\x01", "the file's content changed")):
        array.write_bytes(damaged)
        process = run.start()
        talk, _ = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "blend-sample.npy" in talk.splitlines()[-1]
        assert reason in talk.splitlines()[-1]
    array.write_bytes(good)
    process = run.start()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert (
        "2 starts in a row saved no new checkpoint; the last attempt ended with status failed" in talk.splitlines()[-1]
    )
    assert reason in talk.splitlines()[-1]


def test_a_stop_file_ends_only_the_next_start(launcher):
    run = launcher("stopped-before", **SHAPE)
    stop = run.run / "train" / "control" / "stop"
    stop.parent.mkdir(parents=True)
    stop.touch()
    process = run.start()
    talk, _ = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "asked to stop before the segment began" in talk
    assert not stop.exists()
    assert not (run.run / "train" / "logs").exists()
