"""Test that a checkpoint which cannot be loaded is skipped, although its hashes match.

The checkpoint before it is loaded, and the training must continue exactly as from that checkpoint. From then on, every
reader of manifests must skip the damaged checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from checkpoint_manifests import list_files_again
from fabricated_training import make_index, stage
from ranks import run_ranks

from bloomery.contracts.checkpoint import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    REFERENCE_NAME,
    newest_manifest,
    read_checkpoint,
    read_manifest,
)

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

BATCH = 8
CONFIGURATION = stage(data=2, precision="fp32", samples=320)
OPTIMIZER = "zero_pp_rank_{}_mp_rank_00_optim_states.pt"
LAYER, NORM = "layer_01-model_00-model_states.pt", "layer_02-model_00-model_states.pt"
RANDOM = "random_rank_00001.safetensors"
Damage = Callable[[Path], None]


@contextlib.contextmanager
def _changed_state(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the content of a file of `torch.save`, and write it back."""
    import torch

    state = torch.load(path, weights_only=False)
    yield state
    torch.save(state, path)


def _not_finite(kind: str) -> Damage:
    """Return a damage that sets an element of replica 1's optimizer state to NaN. Older versions saved such states."""

    def damage(folder: Path) -> None:
        with _changed_state(folder / OPTIMIZER.format(1)) as state:
            optimizer = state["optimizer_state_dict"]
            moments = optimizer["base_optimizer_state"]["state"][0]
            flat = optimizer["single_partition_of_fp32_groups"][0] if kind == "master" else moments[kind]
            flat.detach()[5] = float("nan")

    return damage


def _everything_not_finite(folder: Path) -> None:
    """Set a LayerNorm's weights and master weights to NaN, and the reference logits too."""
    from safetensors.torch import load_file, save_file

    with _changed_state(folder / LAYER) as state:
        size = state["weight"].numel()
        state["weight"].fill_(float("nan"))
    for replica in (0, 1):
        with _changed_state(folder / OPTIMIZER.format(replica)) as state:
            optimizer = state["optimizer_state_dict"]
            place = optimizer["param_slice_mappings"][1].get("1.weight")
            if place is not None:
                assert place.numel == size
                flat = optimizer["single_partition_of_fp32_groups"][1].detach()
                flat[place.start : place.start + place.numel] = float("nan")
    reference = load_file(folder / REFERENCE_NAME)
    reference["logits"].fill_(float("nan"))
    save_file(reference, folder / REFERENCE_NAME)


def _moved_weight(folder: Path) -> None:
    with _changed_state(folder / LAYER) as state:
        state["weight"][0] += 0.5


def _moved_logits(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    reference = load_file(folder / REFERENCE_NAME)
    reference["logits"][0, 3] += 1.0
    save_file(reference, folder / REFERENCE_NAME)


def _without_tensor(folder: Path) -> None:
    with _changed_state(folder / NORM) as state:
        del state["input_layernorm.weight"]


def _without_moment(folder: Path) -> None:
    for replica in (0, 1):
        with _changed_state(folder / OPTIMIZER.format(replica)) as state:
            for moments in state["optimizer_state_dict"]["base_optimizer_state"]["state"].values():
                del moments["exp_avg_sq"]


def _without_step(folder: Path) -> None:
    for replica in (0, 1):
        with _changed_state(folder / OPTIMIZER.format(replica)) as state:
            for moments in state["optimizer_state_dict"]["base_optimizer_state"]["state"].values():
                del moments["step"]


def _filled(name: str) -> Damage:
    """Return a damage that fills a file with bytes that no reader can parse."""
    return lambda folder: (folder / name).write_bytes(b"\x80\x02damaged" * 100) and None


def _other_tensors(name: str) -> Damage:
    """Return a damage that replaces a safetensors file by one with other tensors."""

    def damage(folder: Path) -> None:
        import torch
        from safetensors.torch import save_file

        save_file({"other": torch.zeros(2)}, folder / name)

    return damage


def _unlisted(name: str) -> Damage:
    """Return a damage that removes a file, which the rewritten manifest then does not list."""
    return lambda folder: (folder / name).unlink()


DAMAGES: dict[str, tuple[Damage, str]] = {
    "NaN in the master weights": (_not_finite("master"), "differ from their fp32 master weights"),
    "NaN in exp_avg": (_not_finite("exp_avg"), "the exp_avg of h.0.mlp.dense_h_to_4h.weight is not finite"),
    "NaN in exp_avg_sq": (_not_finite("exp_avg_sq"), "the exp_avg_sq of h.0.mlp.dense_h_to_4h.weight is not finite"),
    "NaN in weights, master weights and logits": (
        _everything_not_finite,
        "weight word_embeddings_layernorm.weight is not finite",
    ),
    "a changed weight": (_moved_weight, "differ from their fp32 master weights"),
    "changed logits": (_moved_logits, "the loaded network differs from the saved network"),
    "a file that lacks a tensor": (_without_tensor, "the file lacks the key input_layernorm.weight"),
    "an optimizer state without a moment": (_without_moment, "the optimizer state has the moments exp_avg and"),
    "an optimizer state without its step": (_without_step, "and the step count None"),
    "an unreadable layer file": (_filled(LAYER), "not a state dict that torch can read safely"),
    "an unreadable optimizer file of one replica": (_filled(OPTIMIZER.format(1)), "not a state dict"),
    "unreadable logits": (_filled(REFERENCE_NAME), "does not hold reference tokens"),
    "a reference file with other tensors": (
        _other_tensors(REFERENCE_NAME),
        "does not hold reference tokens and logits",
    ),
    "unreadable generator states of one rank": (
        _filled(RANDOM),
        "does not hold the states of random number generators",
    ),
    "generator states with other tensors": (_other_tensors(RANDOM), "does not hold the states of random number"),
    "a manifest without a layer file": (_unlisted(NORM), f"does not list {NORM}"),
    "a manifest without an optimizer file": (_unlisted(OPTIMIZER.format(1)), f"does not list {OPTIMIZER.format(1)}"),
    "a manifest without the logits": (_unlisted(REFERENCE_NAME), f"does not list {REFERENCE_NAME}"),
    "a manifest without one rank's generator states": (_unlisted(RANDOM), f"does not list {RANDOM}"),
}
"""Name of a case -> the damage, and the problem that the load must report.

After the damage, the manifest is rewritten with the hashes of the damaged files.
"""


class _Training:
    """Training of one rank, with a new manager for each load into the same engine."""

    def __init__(self, run: Path) -> None:
        from bloomery.contracts.index_manifest import read_index_manifest
        from bloomery.contracts.sample_reader import SampleReader
        from training.loop.build_engine import build_trainer
        from training.parallel.mesh import build_mesh

        self.index = read_index_manifest(run / "index" / "index.json")
        self.reader = SampleReader(run / "index")
        self.trainer = build_trainer(CONFIGURATION, build_mesh(CONFIGURATION.training.parallel), 512)

    def open(self, folder: Path) -> Any:
        from training.checkpoint.checkpoint_manager import CheckpointManager
        from training.checkpoint.reference_logits import reference_samples

        samples = reference_samples(self.reader, self.index.sequence_length)
        return CheckpointManager(self.trainer, folder, "this training", self.index, samples)

    def step(self, position: Any) -> tuple[Any, list[float]]:
        """Train one iteration. Return the new position and what the iteration computed."""
        from bloomery.spec.position import Position
        from training.data.batches import micro_batches

        engine, mesh, first = self.trainer.engine, self.trainer.mesh, position.consumed_samples
        engine.set_train_batch_size(BATCH)
        batches = micro_batches(self.reader.train, range(first, first + BATCH), 2, mesh.data_rank, mesh.parallel.data)
        loss = float(engine.train_batch(batches))
        tokens = position.consumed_tokens + BATCH * self.index.sequence_length
        weights = [float(value.detach().double().sum()) for value in self.trainer.network.parameters()]
        return Position(position.iteration + 1, first + BATCH, tokens), [loss, self.trainer.gate.norm, *weights]


def _save(run: Path, iterations: int) -> list[list[float]]:
    """Train and save after each iteration. Return what each iteration computed."""
    training = _Training(run)
    manager = training.open(run / "checkpoints")
    position, found = manager.load(), []
    for _ in range(iterations):
        position, computed = training.step(position)
        manager.save(position)
        found.append(computed)
    return found


def _resume(run: Path, folders: list[Path]) -> list[dict[str, Any]]:
    """Load the newest good checkpoint of each folder into one engine, and train one iteration from it."""
    training, found = _Training(run), []
    for folder in folders:
        manager = training.open(folder)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            position = manager.load()
        _, computed = training.step(position)
        row = {"iteration": position.iteration, "computed": computed, "damaged": manager.damaged}
        found.append(row | {"said": said.getvalue(), "versions": manager.changed_versions})
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[list[float]]]]:
    """Return a run with checkpoints of iterations 2 and 3, and what the four iterations computed on each rank."""
    run = tmp_path_factory.mktemp("saved")
    make_index(run, 320)
    computed = run_ranks(_save, 2, run, 4)
    shutil.rmtree(run / "checkpoints" / "step00000004")
    return run, computed


def _damaged_copy(run: Path, target: Path, damage: Damage) -> Path:
    shutil.copytree(run / "checkpoints", target)
    newest = target / "step00000003"
    damage(newest)
    list_files_again(newest)
    return target


def test_a_damaged_checkpoint_is_skipped_whatever_its_damage_is(
    saved: tuple[Path, list[list[list[float]]]], tmp_path: Path
) -> None:
    run, computed = saved
    folders = [_damaged_copy(run, tmp_path / str(n), damage) for n, (damage, _) in enumerate(DAMAGES.values())]
    flipped = _damaged_copy(run, tmp_path / "flipped", lambda _folder: None)
    path = flipped / "step00000003" / MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"consumed_samples": 24', b'"consumed_samples": 16'))
    good = _damaged_copy(run, tmp_path / "good", lambda _folder: None)
    ranks = run_ranks(_resume, 2, run, [*folders, flipped, good])
    for rank, found in enumerate(ranks):
        for row, folder, (what, (_, problem)) in zip(found, folders, DAMAGES.items(), strict=False):
            assert row["iteration"] == 2, what
            assert list(row["damaged"]) == ["step00000003"], what
            assert problem in row["damaged"]["step00000003"], what
            # The state that the damaged checkpoint left in the engine has been overwritten completely.
            assert row["computed"] == computed[rank][2], what
            newest = newest_manifest(folder)
            assert newest is not None, what
            assert newest.iteration == 2, "the launcher must know the newest good checkpoint too"
            assert (folder / "step00000003" / DAMAGED_NAME).is_file(), what
            assert read_manifest(folder / "step00000003").iteration == 3, what
            if rank == 0:
                assert (
                    f"checkpoint step00000003 is skipped, because it is damaged: {row['damaged']['step00000003']}"
                    in (row["said"])
                )
        assert found[-2]["iteration"] == 2
        assert "changed after it was written" in found[-2]["damaged"]["step00000003"]
        assert (found[-1]["iteration"], found[-1]["damaged"], found[-1]["versions"]) == (3, {}, [])
        assert found[-1]["computed"] == computed[rank][3]
    # A second start skips the marked checkpoint without loading it.
    again = run_ranks(_resume, 2, run, folders[:1])[0][0]
    assert "marked as damaged: " in again["damaged"]["step00000003"]
    assert (again["iteration"], again["computed"]) == (2, computed[0][2])


def _failures(run: Path, every: Path, good: Path) -> list[tuple[int, str]]:
    """Return the exit code and the message of three failed loads.

    In the first load, no checkpoint is good. In the second, the disk does not answer on one rank. In the third, the
    configuration does not fit.
    """
    from bloomery.base.errors import BloomeryError
    from training.checkpoint import checkpoint_manager

    training, found = _Training(run), []
    rank, load_checkpoint = training.trainer.mesh.rank, checkpoint_manager.load_checkpoint

    def failing(error: Exception, folder: Path) -> None:
        def load(*arguments: Any, **options: Any) -> None:
            if rank == 1:
                raise error
            load_checkpoint(*arguments, **options)

        with patch.object(checkpoint_manager, "load_checkpoint", load), pytest.raises(BloomeryError) as caught:
            training.open(folder).load()
        found.append((caught.value.exit_code, str(caught.value)))

    from bloomery.base.errors import CheckFailedError, ConfigError

    failing(CheckFailedError("not read"), every)
    failing(OSError(errno.ESTALE, os.strerror(errno.ESTALE)), good)
    failing(ConfigError("another layout"), good)
    return found


def test_no_good_checkpoint_is_an_error_and_a_fault_of_disk_or_configuration_is_no_damage(
    saved: tuple[Path, list[list[list[float]]]], tmp_path: Path
) -> None:
    run, _ = saved
    every, good = (shutil.copytree(run / "checkpoints", tmp_path / name) for name in ("every", "good"))
    for told in run_ranks(_failures, 2, run, every, good):
        (none_left, first), disk, configuration = told
        assert none_left == 1
        assert "every checkpoint is damaged (step00000003, step00000002); the newest one" in first
        assert disk == (75, disk[1])
        assert "Stale file handle" in disk[1]
        assert configuration == (2, "another layout")
    # Nothing is marked as long as no good checkpoint has been loaded.
    assert not list(tmp_path.rglob(DAMAGED_NAME))


def test_changed_versions_are_known_after_a_load(saved: tuple[Path, list[list[list[float]]]], tmp_path: Path) -> None:
    import torch

    import bloomery
    from bloomery.base.source_commit import source_commit

    run, computed = saved
    recorded = read_checkpoint(run / "checkpoints" / "step00000003").versions
    assert recorded.keys() >= {"bloomery", "torch", "deepspeed"}
    assert (recorded["bloomery"], recorded["torch"]) == (bloomery.__version__, torch.__version__)
    assert recorded.get("commit") == source_commit()
    folder = shutil.copytree(run / "checkpoints", tmp_path / "checkpoints") / "step00000003"
    # Older versions of Bloomery recorded neither their own version nor a digest.
    older = read_checkpoint(folder).model_copy(
        update={"versions": {"torch": "2.0", "deepspeed": recorded["deepspeed"]}}
    )
    (folder / MANIFEST_NAME).write_text(older.model_dump_json(exclude={"digest"}))
    (row,) = run_ranks(_resume, 2, run, [tmp_path / "checkpoints"])[1]
    assert (row["iteration"], row["computed"]) == (3, computed[1][3])
    named = [change.split()[0] for change in row["versions"]]
    assert named == ["bloomery", *(["commit"] if source_commit() else []), "torch"]
    assert f"torch 2.0 -> {torch.__version__}" in row["versions"]
