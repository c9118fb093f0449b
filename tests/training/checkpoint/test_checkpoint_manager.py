"""Test that a loaded checkpoint equals the saved state bit for bit.

If a save fails or is killed, an older complete checkpoint must remain.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fabricated_training import make_index, stage
from ranks import RankError, run_ranks

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

BATCH = 8


class Training:
    """One rank's training without the training loop, so that a test can call every step itself."""

    def __init__(self, configuration: Any, run: Path) -> None:
        from bloomery.contracts.index_manifest import read_index_manifest
        from bloomery.contracts.resume_policy import identity
        from bloomery.contracts.sample_reader import SampleReader
        from training.checkpoint.checkpoint_manager import CheckpointManager
        from training.checkpoint.reference_logits import reference_samples
        from training.loop.build_engine import build_trainer
        from training.parallel.mesh import build_mesh

        mesh = build_mesh(configuration.training.parallel)
        self.index = read_index_manifest(run / "index" / "index.json")
        self.reader = SampleReader(run / "index")
        self.trainer = build_trainer(configuration, mesh, 512)
        self.checkpoints = CheckpointManager(
            self.trainer,
            run / "train" / "checkpoints",
            identity(configuration, self.index),
            self.index,
            reference_samples(self.reader, self.index.sequence_length),
        )
        self.position = self.checkpoints.load()

    def steps(self, count: int) -> list[float]:
        """Train for `count` iterations and return the loss of each."""
        from bloomery.spec.position import Position
        from training.data.batches import micro_batches

        engine, mesh = self.trainer.engine, self.trainer.mesh
        engine.set_train_batch_size(BATCH)
        losses = []
        for _ in range(count):
            first = self.position.consumed_samples
            samples = range(first, first + BATCH)
            batches = micro_batches(self.reader.train, samples, 2, mesh.data_rank, mesh.parallel.data)
            losses.append(float(engine.train_batch(batches)))
            tokens = self.position.consumed_tokens + BATCH * self.index.sequence_length
            self.position = Position(self.position.iteration + 1, first + BATCH, tokens, skipped_updates=first)
        return losses

    def weights(self) -> str:
        """Return the digest of all parameters on this rank."""
        digest = hashlib.sha256()
        for parameter in self.trainer.network.parameters():
            digest.update(parameter.detach().float().numpy().tobytes())
        return digest.hexdigest()


def draw() -> list[float]:
    """Draw one number from each random number generator of this rank."""
    import torch

    return [float(torch.rand(())), random.random(), float(np.random.normal()), random.gauss(0, 1)]


def train_and_save(configuration: Any, run: Path, wait: bool) -> dict[str, Any]:
    """Train four iterations and save after the second.

    A background save continues during the last two iterations.
    """
    training = Training(configuration, run)
    assert training.position.iteration == 0
    before = training.steps(2)
    # Give the generators of each rank a different state.
    for _ in range(training.trainer.mesh.rank + 1):
        draw()
    name = training.checkpoints.save(training.position, wait=wait)
    drawn, after = draw(), training.steps(2)
    folder = run / "train" / "checkpoints" / name
    early = (folder / "manifest.json").exists()
    assert training.checkpoints.finish() == (None if wait else name)
    assert training.checkpoints.written_here
    assert early == wait, "only a synchronous save is complete at once"
    return {"losses": before + after, "drawn": drawn, "weights": training.weights(), "name": name}


def resume(configuration: Any, run: Path) -> dict[str, Any]:
    """Resume from the newest checkpoint and train two iterations."""
    training = Training(configuration, run)
    drawn, position = draw(), training.position
    return {"position": position, "losses": training.steps(2), "drawn": drawn, "weights": training.weights()}


@pytest.mark.parametrize(
    ("precision", "layout"),
    [("bf16", {"pipeline": 2, "data": 2}), ("fp32", {"tensor": 2}), ("fp16", {"data": 2})],
)
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(tmp_path, precision, layout):
    configuration = stage(precision=precision, samples=320, **layout)
    world = configuration.training.parallel.world_size
    files = {}
    for wait in (True, False):
        run = tmp_path / str(wait)
        make_index(run, 320)
        whole = run_ranks(train_and_save, world, configuration, run, wait)
        resumed = run_ranks(resume, world, configuration, run)
        for before, after in zip(whole, resumed, strict=True):
            assert after["position"].iteration == 2
            assert after["position"].consumed_samples == 2 * BATCH
            assert after["position"].skipped_updates == BATCH
            assert after["losses"] == before["losses"][2:]
            assert after["weights"] == before["weights"]
            assert after["drawn"] == before["drawn"]
        assert len({tuple(rank["drawn"]) for rank in resumed}) == world, "each rank must restore its own generators"
        manifest = json.loads((run / "train" / "checkpoints" / "step00000002" / "manifest.json").read_text())
        files[wait] = manifest["files"]
        folder = run / "train" / "checkpoints" / "step00000002"
        assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {"manifest.json"}
    # The background save wrote the weights as they were when the save began.
    assert files[True] == files[False]


def test_damaged_checkpoints_are_skipped_and_replaced(tmp_path, capfd):
    configuration = stage(pipeline=2, samples=320, checkpoint={"keep_last": 2})
    make_index(tmp_path, 320)
    folder = tmp_path / "train" / "checkpoints"
    whole = run_ranks(save_each, 2, configuration, tmp_path, 4)[0]
    assert sorted(path.name for path in folder.glob("step*")) == ["step00000003", "step00000004"]
    for damage in (flip, truncate, delete):
        victim = next((folder / "step00000004").glob("bf16_zero_pp_rank_0_mp_rank_01_*"))
        good = victim.read_bytes()
        damage(victim)
        said, resumed = run_ranks(resume_and_save, 2, configuration, tmp_path)[0]
        assert f"step00000004 is skipped, because it is damaged: {victim}" in said
        assert resumed["position"].iteration == 3
        assert resumed["losses"][0] == whole[3]
        # The new save has replaced the damaged checkpoint.
        assert sorted(path.name for path in folder.glob("step*")) == ["step00000003", "step00000004"]
        assert victim.stat().st_size == len(good)
    for checkpoint in folder.glob("step*"):
        (checkpoint / "manifest.json").write_text("{}")
    with pytest.raises(RankError, match="every checkpoint is damaged"):
        run_ranks(resume, 2, configuration, tmp_path)
    for checkpoint in folder.glob("step*"):
        (checkpoint / "manifest.json").unlink()
    with pytest.raises(RankError, match="every checkpoint is damaged"):
        run_ranks(resume, 2, configuration, tmp_path)


def test_a_temporary_read_error_does_not_mark_a_checkpoint_as_damaged(tmp_path):
    configuration = stage(pipeline=2, samples=320)
    make_index(tmp_path, 320)
    run_ranks(save_each, 2, configuration, tmp_path, 2)
    for told in run_ranks(resume_without_file_server, 2, configuration, tmp_path):
        assert told == (75, "Stale file handle")
    assert run_ranks(resume, 2, configuration, tmp_path)[0]["position"].iteration == 2


def resume_without_file_server(configuration: Any, run: Path) -> tuple[int, str]:
    """Return the exit code and the message of the error when one rank cannot read its files."""
    from bloomery.base.errors import BloomeryError
    from bloomery.contracts import checkpoint

    def stale(path: Path) -> str:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    if int(os.environ["RANK"]) == 1:
        checkpoint.sha256_file = stale  # type: ignore[assignment]
    with pytest.raises(BloomeryError) as raised:
        Training(configuration, run)
    return raised.value.exit_code, raised.value.what


def save_each(configuration: Any, run: Path, iterations: int) -> list[float]:
    training, losses = Training(configuration, run), []
    for _ in range(iterations):
        losses += training.steps(1)
        training.checkpoints.save(training.position)
    return losses


def resume_and_save(configuration: Any, run: Path) -> tuple[str, dict[str, Any]]:
    import contextlib
    import io

    with contextlib.redirect_stderr(io.StringIO()) as said:
        training = Training(configuration, run)
    position, losses = training.position, training.steps(1)
    training.checkpoints.save(training.position)
    return said.getvalue(), {"position": position, "losses": losses}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def delete(path: Path) -> None:
    path.unlink()


def train(configuration: Any, run: Path, iterations: int) -> list[float]:
    return Training(configuration, run).steps(iterations)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed")
    make_index(run, 320)
    return run_ranks(train, 2, stage(pipeline=2, samples=320), run, 3)[0]


def save_until_killed(configuration: Any, run: Path, wait: bool, rank: int, calls: int) -> None:
    """Save a complete checkpoint, then kill `rank` in the next save, just before its fsync number `calls`."""
    training = Training(configuration, run)
    training.steps(1)
    training.checkpoints.save(training.position)
    training.steps(1)
    fsync, left = os.fsync, [calls]

    def dying(descriptor: int) -> None:
        left[0] -= 1
        if left[0] == 0 and training.trainer.mesh.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    os.fsync = dying
    training.checkpoints.save(training.position, wait=wait)
    training.checkpoints.finish()
    raise AssertionError("nothing was killed")


# Each rank calls fsync for its layers, its optimizer state and its generators. Rank 0 then calls fsync for the manifest
# (call 7) and its folder, for the folder of checkpoints after the rename (call 9), and for the file that names the
# newest checkpoint.
@pytest.mark.parametrize(
    ("wait", "rank", "calls", "iteration"), [(True, 1, 2, 1), (False, 0, 3, 1), (True, 0, 7, 1), (True, 0, 9, 2)]
)
def test_a_complete_checkpoint_remains_when_a_rank_is_killed_during_a_save(
    tmp_path, undisturbed, wait, rank, calls, iteration
):
    configuration = stage(pipeline=2, samples=320)
    make_index(tmp_path, 320)
    with pytest.raises(RankError, match=f"rank {rank} failed by signal 9"):
        run_ranks(save_until_killed, 2, configuration, tmp_path, wait, rank, calls)
    folder = tmp_path / "train" / "checkpoints"
    assert (folder / "step00000002").exists() == (iteration == 2)
    position, losses = run_ranks(resume_and_save, 2, configuration, tmp_path)[0][1].values()
    assert position.iteration == iteration
    assert losses == undisturbed[iteration : iteration + 1]
    assert not list(folder.glob(".*"))


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill_the_disk(configuration: Any, run: Path, wait: bool) -> str:
    """Save a checkpoint that fits, then one for which the disk fills up during the save, and return the error."""
    from bloomery.base.errors import ResourceError

    training = Training(configuration, run)
    training.steps(1)
    training.checkpoints.save(training.position)
    training.steps(1)
    if training.trainer.mesh.rank == 0:
        training.checkpoints._expected_bytes = lambda: 0
        ballast = run / "ballast"
        ballast.write_bytes(b"x" * 900_000)
    try:
        training.checkpoints.save(training.position, wait=wait)
        training.checkpoints.finish()
    except ResourceError as error:
        if training.trainer.mesh.rank == 0:
            ballast.unlink()
        return str(error)
    raise AssertionError("the disk was large enough")


@pytest.mark.parametrize("wait", [True, False])
def test_a_disk_that_fills_up_during_a_save_raises_an_error_on_every_rank(small_disk, wait):
    configuration = stage(pipeline=2, samples=320)
    make_index(small_disk, 320)
    said = run_ranks(fill_the_disk, 2, configuration, small_disk, wait)
    assert all("the disk is full" in each for each in said)
    folder = small_disk / "train" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["latest", "step00000001"]
    assert run_ranks(resume, 2, configuration, small_disk)[0]["position"].iteration == 1
