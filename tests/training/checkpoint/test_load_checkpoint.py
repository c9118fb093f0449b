"""Test that a training that resumes on another layout remains the same training.

Every tensor must be equal bit for bit, and the losses must equal those of the old layout.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checkpoint_manifests import list_files_again
from fabricated_training import make_index, stage
from ranks import run_ranks
from whole_model import assemble

from bloomery.base.errors import ConfigError
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import layer_file, read_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS, LENGTH, HIDDEN, BATCH, SAVED, STEPS = 512, 32, 32, 12, 3, 6
OTHERS = {"positions": "rotary", "activation": "swiglu", "tied_embeddings": False, "embedding_layernorm": False}
"""Settings of a model that differ from BLOOM's."""
LAMB = {
    "kind": "lamb",
    "learning_rate": 0.01,
    "schedule": "constant",
    "lamb": {"dialect": "innovation", "norms": "stale"},
}
LAMB_AND_DROPOUT: dict[str, Any] = {"optimizer": LAMB, "dropout": {"attention": 0.1, "hidden": 0.1}}
"""LAMB with a third moment, and with norms of the previous step, which are state, too."""
SEQUENCE_PARALLEL = {"parallel": {"sequence_parallel": True}}

Layout = tuple[int, int, int]
Change = Callable[[dict[str, Any]], Any]
"""A function that changes the content of a loaded file in place."""


def _stage(layout: Layout, precision: str, model: dict[str, Any] | None = None, **training: Any) -> TrainStage:
    raw = stage(precision=precision, samples=STEPS * BATCH).model_dump(mode="json")
    raw["model"] |= {"layers": 3, "hidden_size": HIDDEN, "sequence_length": LENGTH} | (model or {})
    parallel = dict(zip(("tensor", "pipeline", "data"), layout, strict=True)) | training.pop("parallel", {})
    raw["training"] |= {
        "parallel": parallel,
        "batch": {"micro_batch_size": 2, "global_batch_size": BATCH},
        "optimizer": {"learning_rate": 0.003, "schedule": "constant"},
        # This scale fits fp16 from the start, so no update is skipped.
        "loss_scale": {"initial_power": 8},
    } | training
    return TrainStage.model_validate(raw)


def _go_on(configuration: TrainStage, run: Path, loads: bool, saves_at: int | None, until: int) -> dict[str, Any]:
    """Load a checkpoint if `loads`, then train and save on one rank.

    Return the losses, the final weights, and the state after loading or, if there was a save, at the save.
    """
    import numpy as np
    import torch
    from whole_model import weights

    from bloomery.contracts.index_manifest import read_index_manifest
    from bloomery.contracts.sample_reader import SampleReader
    from bloomery.spec.layout import micro_batch_starts
    from bloomery.spec.position import Position
    from training.checkpoint.checkpoint_manager import CheckpointManager
    from training.checkpoint.reference_logits import reference_samples
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    mesh, reader = build_mesh(configuration.training.parallel), SampleReader(run / "index")
    trainer = build_trainer(configuration, mesh, ROWS)
    index = read_index_manifest(run / "index" / "index.json")
    checkpoints = CheckpointManager(
        trainer, run / "checkpoints", "this training", index, reference_samples(reader, LENGTH)
    )
    position, curve = checkpoints.load(), {}
    assert bool(position.iteration) is loads
    state = _state(trainer) if loads else {}
    for step in range(position.iteration + 1, until + 1):
        starts = micro_batch_starts((step - 1) * BATCH, BATCH, 2, mesh.data_rank, mesh.parallel.data)
        pairs = (torch.from_numpy(np.stack([reader.train(start), reader.train(start + 1)])) for start in starts)
        batches = ((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()) for tokens in pairs)
        samples = [(start, start + 1) for start in starts]
        with trainer.network.dropout.step(configuration.seed, step, samples):
            curve[step] = float(trainer.engine.train_batch(batches)), trainer.gate.norm
        if step == saves_at:
            state = _state(trainer)
            checkpoints.save(Position(step, step * BATCH, step * BATCH * LENGTH))
    return {"curve": curve, "weights": weights(trainer), **state}


def _state(trainer: Any) -> dict[str, Any]:
    """Return this rank's weights, master weights, moments and counters as DeepSpeed's own accessors return them."""
    from whole_model import held_here, step_count, weights

    wrapper = trainer.engine.optimizer
    wrapper._hp_optimizer_states_linked = False
    wrapper._lazy_init_hp_params_optimizer_state()
    scaler = getattr(wrapper, "loss_scaler", None)
    found: dict[str, Any] = {
        "loaded": weights(trainer),
        "steps": (step_count(wrapper.optimizer), trainer.engine.global_steps, trainer.engine.global_samples),
        "scaler": {} if scaler is None else dict(vars(scaler)),
    }
    for kind in _kinds(trainer.stage)[1:]:
        key = None if kind == "master" else kind
        found[kind] = {
            parameter.name: tensor.get_full_hp_param(key).clone() for parameter, tensor in held_here(trainer)
        }
    return found


def _kinds(configuration: TrainStage) -> tuple[str, ...]:
    """Return the kinds of state that are compared."""
    third = ("exp_avg_innovation_sq",) if configuration.training.optimizer.lamb.dialect == "innovation" else ()
    return ("loaded", "master", "exp_avg", "exp_avg_sq", *third)


class Training:
    """One training with one saved checkpoint, from which any layout can resume."""

    def __init__(self, run: Path, configuration: TrainStage) -> None:
        make_index(run, STEPS * BATCH)
        self.run, self.stage = run, configuration
        ranks = self.go_on(configuration, loads=False, saves_at=SAVED)
        self.curve = ranks[0]["curve"]
        self.counters = ranks[0]["steps"], ranks[0]["scaler"]
        # A tied copy may have a differently rounded optimizer state. Only the state of its owner, the first stage,
        # counts.
        self.state = {
            kind: assemble(configuration, ROWS, [rank[kind] for rank in ranks], exact=kind == "loaded")
            for kind in _kinds(configuration)
        }

    @property
    def checkpoint(self) -> Path:
        return self.run / "checkpoints" / f"step{SAVED:08d}"

    def go_on(
        self, configuration: TrainStage, *, loads: bool = True, saves_at: int | None = None, until: int = STEPS
    ) -> list[dict[str, Any]]:
        world = configuration.training.parallel.world_size
        ranks: list[dict[str, Any]] = run_ranks(_go_on, world, configuration, self.run, loads, saves_at, until)
        return ranks


CASES = {
    "bf16": ((2, 2, 1), {}, None, [(1, 1, 1), (4, 1, 1), (1, 1, 3), (1, 3, 1)]),
    "fp32": ((1, 2, 2), {}, None, [(2, 1, 2), (2, 2, 1), (1, 1, 1)]),
    "fp16": ((2, 1, 2), {}, None, [(1, 2, 1)]),
    "bf16, LAMB": ((1, 2, 1), {"optimizer": LAMB | {"lamb": {"dialect": "floor"}}}, None, [(2, 1, 1)]),
    "fp32, LAMB and dropout": ((2, 1, 2), LAMB_AND_DROPOUT, None, [(1, 2, 1)]),
    "fp32, sequence parallel, nothing like BLOOM": ((2, 1, 2), SEQUENCE_PARALLEL, OTHERS, [(1, 2, 2), (4, 1, 1)]),
}
"""For each case: the saving layout, its training keys, its model, and the layouts that resume.

A layout is (tensor, pipeline, data).
"""


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_is_bit_equal_and_the_losses_equal_those_of_the_old_layout(tmp_path: Path, case: str) -> None:
    import torch

    layout, keys, model, others = CASES[case]
    precision = case.split(",")[0]
    training = Training(tmp_path, _stage(layout, precision, model, **keys))
    # Relative tolerances of the loss. For fp32, bf16 and fp16, the measured differences are 2e-7, 6e-5 and 6e-6.
    # Layouts add numbers in another order, and 16-bit weights amplify the rounding.
    tolerance = {"fp32": 1e-6, "bf16": 3e-4, "fp16": 3e-5}[precision]
    for other in others:
        kept = {key: value for key, value in keys.items() if key != "parallel"}
        configuration = _stage(other, precision, model, partition="uniform", **kept)
        ranks = training.go_on(configuration)
        for kind in _kinds(configuration):
            whole = assemble(configuration, ROWS, [rank[kind] for rank in ranks])
            for name, right in training.state[kind].items():
                assert torch.equal(whole[name], right), (other, kind, name)
        for rank in ranks:
            assert (rank["steps"], rank["scaler"]) == training.counters
        assert ranks[0]["curve"].keys() == set(range(SAVED + 1, STEPS + 1))
        for step, found in ranks[0]["curve"].items():
            assert found[0] == pytest.approx(training.curve[step][0], rel=tolerance), (other, step)
            assert found[1] == pytest.approx(training.curve[step][1], rel=10 * tolerance), (other, step)


def test_a_change_of_layout_and_back_changes_no_loss(tmp_path: Path) -> None:
    """Layout 2 x 2 x 1 saves, 1 x 1 x 3 loads and saves, and 2 x 2 x 1 loads: the losses are equal bit for bit."""
    home, abroad = _stage((2, 2, 1), "bf16"), _stage((1, 1, 3), "bf16")
    training = Training(tmp_path, home)
    old = read_checkpoint(training.checkpoint)
    training.checkpoint.rename(tmp_path / "old")
    (tmp_path / "checkpoints").mkdir(exist_ok=True)
    ranks = run_ranks(_save_as, 3, abroad, tmp_path)
    assert ranks[0] == old.iteration == SAVED
    assert read_checkpoint(training.checkpoint).data_parallel == 3
    back = training.go_on(home)
    assert back[0]["curve"] == {step: training.curve[step] for step in range(SAVED + 1, STEPS + 1)}


def _save_as(configuration: TrainStage, run: Path) -> int:
    """Load the checkpoint `old` on this layout and save it as a new checkpoint."""
    from bloomery.contracts.index_manifest import read_index_manifest
    from bloomery.contracts.sample_reader import SampleReader
    from bloomery.spec.position import Position
    from training.checkpoint.checkpoint_manager import CheckpointManager
    from training.checkpoint.load_checkpoint import load_checkpoint
    from training.checkpoint.reference_logits import reference_samples
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    trainer = build_trainer(configuration, build_mesh(configuration.training.parallel), ROWS)
    load_checkpoint(trainer, run / "old", read_checkpoint(run / "old"))
    index, samples = (
        read_index_manifest(run / "index" / "index.json"),
        reference_samples(SampleReader(run / "index"), LENGTH),
    )
    checkpoints = CheckpointManager(trainer, run / "checkpoints", "this training", index, samples)
    checkpoints.save(Position(SAVED, SAVED * BATCH, SAVED * BATCH * LENGTH))
    return int(trainer.engine.global_steps)


def _moved(name: str) -> Change:
    """Return a change that adds 0.5 to one weight of a layer file."""
    return lambda state: state[name].add_(0.5)


def _moved_state(kind: str, element: int = 0, elements: int = 1) -> Change:
    """Return a change that adds 0.5 to elements of an optimizer file's group without weight decay.

    This group begins with the embedding's LayerNorm.
    """

    def change(file: dict[str, Any]) -> None:
        optimizer = file["optimizer_state_dict"]
        masters, moments = optimizer["single_partition_of_fp32_groups"], optimizer["base_optimizer_state"]["state"][1]
        flat = masters[1] if kind == "master" else moments[kind]
        flat.detach().view(-1)[element : element + elements].add_(0.5)

    return change


def _misplaced(file: dict[str, Any]) -> None:
    slices = file["optimizer_state_dict"]["param_slice_mappings"][1]
    slices["1.weight"], slices["1.bias"] = slices["1.bias"], slices["1.weight"]


class _Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch owned",)


NORM, STATES = layer_file(1, 1), "zero_pp_rank_0_mp_rank_0{}_optim_states.pt"
BOTH = [layer_file(1, 0), layer_file(1, 1)]
PLANTED: dict[str, tuple[dict[str, Change], str]] = {
    "a LayerNorm changed in every copy, so that only the logits differ": (
        dict.fromkeys(BOTH, _moved("weight"))
        | {STATES.format(rank): _moved_state("master", elements=HIDDEN) for rank in (0, 1)},
        "the loaded network differs from the saved network: loss on the reference batch: ",
    ),
    "weights that differ from their master weights": (
        dict.fromkeys(BOTH, _moved("weight")),
        "weights of word_embeddings_layernorm.weight differ from their fp32 master weights by up to 0.5",
    ),
    "one changed replica of a weight": (
        {NORM: _moved("weight")},
        "every tensor rank holds a replica of word_embeddings_layernorm.weight, but the replica on rank(s) 1 differs",
    ),
    "one changed replica of a moment": (
        {STATES.format(1): _moved_state("exp_avg_sq", element=HIDDEN + 3)},
        "a replica of exp_avg_sq of word_embeddings_layernorm.bias, but the replica on rank(s) 1 differs",
    ),
    "one file with a later step than the other files": (
        {STATES.format(1): _moved_state("step")},
        f"the file states different numbers of optimizer steps: {SAVED}, {SAVED}.5",
    ),
    "elements in an order that differs from the layout's": (
        {STATES.format(0): _misplaced},
        f"parameter group 1: parameter 'weight' of pipeline layer 1 is at elements {HIDDEN} to {2 * HIDDEN - 1}; "
        f"expected: at elements 0 to {HIDDEN - 1}",
    ),
    "a state whose unpickling would run a program": (
        {STATES.format(0): lambda file: file.update(payload=_Payload())},
        "not a state dict that torch can read safely",
    ),
}
"""For each case: the changes of files, after which the manifest is rewritten, and the expected error."""


def _refusals(configuration: TrainStage, good: Path, planted: list[Path]) -> list[str]:
    """Return the error that one trainer raises for each checkpoint, and an empty text for the good checkpoint."""
    from bloomery.base.errors import BloomeryError
    from training.checkpoint.collective_calls import from_every_rank
    from training.checkpoint.continuity import check_continuity
    from training.checkpoint.load_checkpoint import load_checkpoint
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    mesh, said = build_mesh(configuration.training.parallel), []
    trainer = build_trainer(configuration, mesh, ROWS)
    for folder in [good, *planted]:
        manifest, problem = read_checkpoint(folder), ""
        try:
            load_checkpoint(trainer, folder, manifest)
        except BloomeryError as error:
            problem = str(error)
        # Only the replica that holds a parameter's state checks this state.
        problem = next(filter(None, from_every_rank(partial(str, problem))), "")
        if not problem:
            try:
                problem = "" if check_continuity(trainer, folder, manifest).difference < 1e-5 else "differs"
            except BloomeryError as error:
                problem = str(error)
        said.append(problem)
    for other, rows in ((configuration, ROWS // 2), (_stage((1, 1, 2), "bf16"), ROWS)):
        with pytest.raises(ConfigError) as caught:
            load_checkpoint(build_trainer(other, mesh, rows), good, read_checkpoint(good))
        said.append(str(caught.value))
    return said


def test_a_checkpoint_that_differs_from_the_saved_training_is_refused(tmp_path: Path) -> None:
    import torch

    training, folders = Training(tmp_path, _stage((2, 1, 1), "fp32")), []
    for number, (changes, _) in enumerate(PLANTED.values()):
        folder = tmp_path / str(number)
        shutil.copytree(training.checkpoint, folder)
        for name, change in changes.items():
            state = torch.load(folder / name, weights_only=False)
            change(state)
            torch.save(state, folder / name)
        list_files_again(folder)
        folders.append(folder)
    edited = tmp_path / "edited"
    shutil.copytree(training.checkpoint, edited)
    data = bytearray((edited / STATES.format(1)).read_bytes())
    data[len(data) // 2] ^= 1
    (edited / STATES.format(1)).write_bytes(data)
    said = run_ranks(_refusals, 2, _stage((1, 1, 2), "fp32"), training.checkpoint, [*folders, edited])[0]
    assert said[0] == ""
    for problem, (what, (_, expected)) in zip(said[1:], PLANTED.items(), strict=False):
        assert expected in problem, what
    assert "content differs from the manifest" in said[-3]
    assert said[-2].endswith(f"expected: {ROWS} embedding rows, as in the checkpoint")
    assert (
        said[-1] == f"training.precision: the checkpoint {training.checkpoint.name} was trained in fp32; expected: fp32"
    )
    assert not (tmp_path / "owned").exists()
