"""Test that every layout trains the same model: equal initial weights, gradients, and weights after ten steps."""

from __future__ import annotations

from typing import Any

import pytest
from ranks import run_ranks
from whole_model import assemble

from bloomery.config.stages import TrainStage
from bloomery.spec.parameters import declare

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

LAYOUTS = [
    (2, 1, 1),
    (4, 1, 1),
    (1, 2, 1),
    (1, 4, 1),
    (1, 1, 2),
    (2, 2, 1),
    (2, 1, 2),
    (1, 2, 2),
    (2, 2, 2),
]
"""Layouts (tensor, pipeline, data) that are compared with one process."""

ROWS, LENGTH, STEPS, BATCH = 64, 16, 10, 4
MANY_ROWS = 512
"""Number of vocabulary rows at which the sum over replicas is computed in several pieces."""
OPTIMIZERS = ["sgd", "adam", "lamb"]
RATES = {"sgd": 0.1, "adam": 0.001, "lamb": 0.01}
DROPOUT = {"dropout": {"attention": 0.1, "hidden": 0.1}}
ROTARY = {"positions": "rotary", "activation": "swiglu", "tied_embeddings": False, "embedding_layernorm": False}
LEARNED = {"positions": "learned", "embedding_layernorm": False}
"""ROTARY and LEARNED are models that differ from BLOOM in parts that a layout affects."""


def _stage(
    layout: tuple[int, int, int],
    kind: str = "adam",
    model: dict[str, Any] | None = None,
    sequence_parallel: bool = False,
    **training: Any,
) -> TrainStage:
    from fabricated_training import stage

    raw = stage(precision="fp32").model_dump(mode="json")
    raw["model"] |= {"layers": 4, "hidden_size": 32, "heads": 4, "sequence_length": LENGTH} | (model or {})
    raw["training"] |= {
        "parallel": dict(zip(("tensor", "pipeline", "data"), layout, strict=True))
        | {"sequence_parallel": sequence_parallel},
        "train_samples": STEPS * BATCH,
        "batch": {"micro_batch_size": 2, "global_batch_size": BATCH},
        "optimizer": {
            "kind": kind,
            "learning_rate": RATES[kind],
            "schedule": "constant",
            "gradient_clipping": 1.0,
        },
    } | training
    return TrainStage.model_validate(raw)


def _train(stages: list[TrainStage]) -> list[dict[str, Any]]:
    """Train each configuration (all have one layout) on this rank. Return weights, gradients, losses and norms."""
    from dataclasses import replace

    import torch
    from whole_model import Gradients, weights

    from bloomery.spec.layout import micro_batch_starts
    from training.loop.build_engine import build_trainer
    from training.optim.lamb import Lamb
    from training.parallel.mesh import build_mesh

    mesh, results = build_mesh(stages[0].training.parallel), []
    tokens = torch.randint(
        0, ROWS, (stages[0].training.train_samples, LENGTH + 1), generator=torch.Generator().manual_seed(3)
    )
    for stage in stages:
        trainer = build_trainer(stage, replace(mesh, parallel=stage.training.parallel), ROWS)
        start, gradients, curve = weights(trainer), Gradients(trainer), []
        base, ratios = trainer.engine.optimizer.optimizer, []
        for step in range(STEPS):
            size = stage.training.batch.global_batch_size
            starts = micro_batch_starts(step * size, size, 2, mesh.data_rank, mesh.parallel.data)
            batches = [(tokens[start : start + 2, :-1], tokens[start : start + 2, 1:]) for start in starts]
            samples = [(start, start + 1) for start in starts]
            with trainer.network.dropout.step(stage.seed, step + 1, samples):
                loss = float(trainer.engine.train_batch(iter(batches)))
            curve.append((loss, trainer.gate.norm))
            if isinstance(base, Lamb):
                ratios.append(base.trust_ratios())
            if step == 0:
                first = gradients.take()
        layers = [type(module).__name__ for module in trainer.network.local_modules().values()]
        results.append(
            {
                "layers": layers,
                "start": start,
                "gradients": first,
                "curve": curve,
                "ratios": ratios,
                "end": weights(trainer),
            }
        )
    return results


def _proof(stages: list[TrainStage]) -> list[dict[str, Any]]:
    """Return the results of each configuration, with the tensors of all ranks assembled."""
    world = stages[0].training.parallel.world_size
    ranks = run_ranks(_train, world, stages, timeout=240)
    together = []
    for number, stage in enumerate(stages):
        of_ranks = [rank[number] for rank in ranks]
        assert all(each["curve"] == of_ranks[0]["curve"] for each in of_ranks)
        assert all(each["ratios"] == of_ranks[0]["ratios"] for each in of_ranks), "trust ratios differ between ranks"
        wholes = {
            what: assemble(stage, ROWS, [each[what] for each in of_ranks]) for what in ("start", "gradients", "end")
        }
        layers = [each["layers"] for each in of_ranks]
        results = {name: of_ranks[0][name] for name in ("curve", "ratios")}
        together.append(results | {"layers": layers} | wholes)
    return together


def _distance(found: Any, right: Any) -> float:
    """Return the relative L2 distance."""
    return float((found - right).norm() / right.norm())


def _without_key_bias(name: str, tensor: Any, stage: TrainStage) -> Any:
    """Return a tensor without the bias of keys.

    The bias of a key changes all scores of a query equally, so its true gradient is zero. Adam and LAMB then divide
    noise by noise.
    """
    if not name.endswith("query_key_value.bias") or stage.model.positions == "rotary":
        return tensor
    return tensor.view(stage.model.heads, 3, -1)[:, [0, 2]]


def _agree(found: dict[str, Any], right: dict[str, Any], stage: TrainStage) -> None:
    import torch

    adaptive = stage.training.optimizer.kind != "sgd"
    for name, whole in right["start"].items():
        assert torch.equal(found["start"][name], whole), f"the initial values of {name} differ"
    for step, (ours, theirs) in enumerate(zip(found["curve"], right["curve"], strict=True)):
        assert ours == pytest.approx(theirs, rel=1e-5), f"loss and gradient norm of step {step}"
    for step, (ours, theirs) in enumerate(zip(found["ratios"], right["ratios"], strict=True)):
        assert ours == pytest.approx(theirs, rel=1e-5), f"trust ratios of step {step}"
    for name, whole in right["gradients"].items():
        ours, theirs = (_without_key_bias(name, tensor, stage) for tensor in (found["gradients"][name], whole))
        assert _distance(ours, theirs) < 1e-5, f"gradient of {name}: {_distance(ours, theirs):.1e}"
    for name, whole in right["end"].items():
        ours, theirs = found["end"][name], whole
        if adaptive:
            ours, theirs = (_without_key_bias(name, tensor, stage) for tensor in (ours, theirs))
        assert _distance(ours, theirs) < 1e-5, f"{name} after {STEPS} steps: {_distance(ours, theirs):.1e}"
        assert not torch.equal(whole, right["start"][name]), f"{name} was not trained"


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    """Return the results of one process with each optimizer, and with dropout."""
    return _proof([*(_stage((1, 1, 1), optimizer) for optimizer in OPTIMIZERS), _stage((1, 1, 1), "sgd", **DROPOUT)])


@pytest.mark.parametrize("layout", LAYOUTS, ids="tp{0[0]}-pp{0[1]}-dp{0[2]}".format)
def test_every_layout_trains_the_same_model(alone: list[dict[str, Any]], layout: tuple[int, int, int]) -> None:
    """The precision is fp32, so that only the order of sums differs."""
    stages = [*(_stage(layout, optimizer) for optimizer in OPTIMIZERS), _stage(layout, "sgd", **DROPOUT)]
    for found, right, stage in zip(_proof(stages), alone, stages, strict=True):
        _agree(found, right, stage)


def test_lamb_trains_the_same_model_if_three_replicas_cut_the_parameters() -> None:
    """ZeRO divides the flat state into three equal parts, so parameters are cut at any element."""
    batch = {"batch": {"micro_batch_size": 2, "global_batch_size": 6}, "train_samples": 6 * STEPS}
    lamb = [{}, {"dialect": "floor"}, {"dialect": "innovation"}, {"norms": "stale"}]
    whole, cut = ([_lamb_stage(layout, each, batch) for each in lamb] for layout in ((1, 1, 1), (1, 1, 3)))
    for found, right, stage in zip(_proof(cut), _proof(whole), cut, strict=True):
        _agree(found, right, stage)


def test_norms_of_shards_keep_replicas_and_tied_copies_equal() -> None:
    """A tensor-parallel rank has ratios of its own for split parameters only."""
    batch = {"batch": {"micro_batch_size": 2, "global_batch_size": 4}}
    stages = [
        _lamb_stage((2, 2, 1), {"dialect": "floor", "norms": norms}, batch) for norms in ("shard", "stale_weights")
    ]
    ranks = run_ranks(_train, 4, stages, timeout=240)
    for number, stage in enumerate(stages):
        assemble(stage, ROWS, [rank[number]["end"] for rank in ranks], exact=True)
        one, other = (ranks[rank][number]["ratios"][-1] for rank in (0, 1))
        split = [parameter.placement.dimension is not None for parameter in declare(stage.model, ROWS)]
        equal = [ours == theirs for ours, theirs in zip(one, other, strict=True)]
        assert all(same for same, is_split in zip(equal, split, strict=True) if not is_split)
        assert not any(same for same, is_split in zip(equal, split, strict=True) if is_split)


def _lamb_stage(layout: tuple[int, int, int], lamb: dict[str, Any], batch: dict[str, Any]) -> TrainStage:
    return _stage(
        layout, **batch, optimizer={"kind": "lamb", "learning_rate": 0.01, "schedule": "constant", "lamb": lamb}
    )


def _tied_copies(stages: list[TrainStage]) -> list[dict[str, Any]]:
    """Return this rank's weights after three steps, for each configuration."""
    import torch
    from whole_model import weights

    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    mesh, found = build_mesh(stages[0].training.parallel), []
    for stage in stages:
        trainer = build_trainer(stage, mesh, MANY_ROWS)
        tokens = torch.randint(
            0, MANY_ROWS, (3, 2, LENGTH + 1), generator=torch.Generator().manual_seed(mesh.data_rank)
        )
        for rows in tokens:
            trainer.engine.train_batch(iter([(rows[:, :-1], rows[:, 1:])]))
        found.append(weights(trainer))
    return found


def test_tied_copies_stay_equal_over_three_replicas() -> None:
    """With three layers, the embedding has different positions in the flat buffers of the two stages."""
    stages = [
        _stage(
            (1, 2, 3),
            kind,
            model={"layers": 3},
            precision=precision,
            batch={"micro_batch_size": 2, "global_batch_size": 6},
        )
        for precision, kind in (
            ("fp32", "adam"),
            ("bf16", "adam"),
            ("fp16", "adam"),
            ("bf16", "lamb"),
            ("fp16", "lamb"),
        )
    ]
    ranks = run_ranks(_tied_copies, 6, stages)
    for number, stage in enumerate(stages):
        assemble(stage, MANY_ROWS, [rank[number] for rank in ranks], exact=True)


@pytest.fixture(scope="module")
def others_alone() -> list[dict[str, Any]]:
    """Return the results of one process with models that differ from BLOOM."""
    return _proof([_stage((1, 1, 1), "sgd", model) for model in (ROTARY, LEARNED)])


def test_sequence_parallelism_other_models_and_another_partition_train_the_same_model(
    alone: list[dict[str, Any]], others_alone: list[dict[str, Any]]
) -> None:
    """Each stage has 2 blocks by default.

    The other partition also counts the head, so the first stage has 3 blocks, and the second has 1 block and the head.
    """
    layout, others, cut = (2, 2, 1), (ROTARY, LEARNED), "type:transformer|head"
    stages = [_stage(layout, optimizer, sequence_parallel=True) for optimizer in OPTIMIZERS]
    stages += [_stage(layout, "sgd", sequence_parallel=True, activation_checkpointing="none", **DROPOUT)]
    stages += [_stage(layout, "sgd", model, partition=cut) for model in others]
    stages += [_stage(layout, "sgd", model, sequence_parallel=True) for model in others]
    right = [*alone, *others_alone, *others_alone]
    for found, theirs, stage in zip(_proof(stages), right, stages, strict=True):
        _agree(found, theirs, stage)
        blocks = [each.count("TransformerBlock") for each in found["layers"]]
        assert blocks == ([3, 3, 1, 1] if stage.training.partition == cut else [2, 2, 2, 2])
