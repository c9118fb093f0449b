"""Test the precision regimes: fp32 sums of gradients, fp32 master weights, and losses close to those of fp32."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from ranks import run_ranks
from whole_model import assemble

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS, LENGTH, STEPS = 64, 16, 8
NEAR = {"bf16": {"gradient": 2e-2, "loss": 1e-3}, "fp16": {"gradient": 3e-3, "loss": 1e-4}}
"""Greatest relative distances from fp32 that the rounding of the type (2^-9, 2^-12) explains."""


def _stage(
    precision: str, layout: tuple[int, int, int] = (1, 1, 1), micro_batches: int = 4, **training: Any
) -> TrainStage:
    from fabricated_training import stage

    tensor, pipeline, data = layout
    batch = micro_batches * data
    raw = stage(precision=precision, tensor=tensor, pipeline=pipeline, data=data).model_dump(mode="json")
    raw["model"] |= {"sequence_length": LENGTH}
    raw["training"] |= {
        "train_samples": STEPS * batch,
        "batch": {"micro_batch_size": 1, "global_batch_size": batch},
        "optimizer": {"learning_rate": 0.003, "schedule": "constant", "gradient_clipping": 0.0},
    } | training
    return TrainStage.model_validate(raw)


def _batches(trainer: Any) -> Any:
    """Return the same samples in each step, so that the loss falls."""
    import torch

    mesh, batch = trainer.mesh, trainer.stage.training.batch.global_batch_size
    tokens = torch.randint(0, ROWS, (batch, LENGTH + 1), generator=torch.Generator().manual_seed(5))
    return iter([(row[:, :-1], row[:, 1:]) for row in tokens[mesh.data_rank :: mesh.parallel.data].split(1)])


def _train(stages: list[TrainStage]) -> list[dict[str, Any]]:
    """Return, for each configuration, the loss and gradient norm of each step and the gradients of the first step."""
    from whole_model import Gradients

    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    mesh, results = build_mesh(stages[0].training.parallel), []
    for stage in stages:
        trainer = build_trainer(stage, mesh, ROWS)
        gradients, curve = Gradients(trainer), []
        for step in range(STEPS):
            curve.append((float(trainer.engine.train_batch(_batches(trainer))), trainer.gate.norm))
            if step == 0:
                first = gradients.take()
        results.append({"curve": curve, "gradients": first})
    return results


def _add(total: Any, gradient: Any) -> None:
    total += gradient.double()


def _sums(stage: TrainStage, cases: list[tuple[str, str] | None]) -> list[float]:
    """Return, for each case, the greatest relative L2 distance of a gradient from its exact sum.

    The gradient is the one that the optimizer gets, and the exact sum is that of its micro-batches in float64. A case
    is (type of accumulation, type of reduction) in DeepSpeed's configuration, or None for this project's configuration.
    """
    import torch
    from whole_model import Gradients, held_here

    from training.loop import build_engine as module
    from training.parallel.mesh import build_mesh

    right, mesh, distances = module.deepspeed_json, build_mesh(stage.training.parallel), []
    module.verify_engine = lambda *_: None
    for case in cases:
        told: dict[str, Any] = {}
        if case is not None:
            told = {"data_types": {"grad_accum_dtype": case[0]}, "communication_data_type": case[1]}
        module.deepspeed_json = lambda training, told=told: right(training) | told
        trainer = module.build_trainer(stage, mesh, ROWS)
        exact = {p.name: torch.zeros(t.shape, dtype=torch.float64) for p, t in held_here(trainer)}
        for parameter, tensor in held_here(trainer):
            tensor.register_hook(partial(_add, exact[parameter.name]))
        gradients = Gradients(trainer)
        trainer.engine.train_batch(_batches(trainer))
        found = gradients.take()
        distances.append(
            # The tied weight is left out because its gradient has two parts. Tiny gradients are left out because they
            # are only noise.
            max(
                float((found[name].double() - total).norm() / total.norm())
                for name, total in exact.items()
                if name != "word_embeddings.weight" and total.norm() > 1e-4
            )
        )
    return distances


def test_gradients_are_accumulated_and_reduced_in_fp32() -> None:
    """The optimizer gets the fp32 sum of the bf16 gradients of 32 micro-batches, without rounding to bf16.

    If DeepSpeed accumulates in bf16, or reduces in bf16 as it does by default, the distance is greater by orders of
    magnitude.
    """
    stage = _stage("bf16", micro_batches=32)
    (distances,) = run_ranks(_sums, 1, stage, [None, ("bf16", "bf16"), ("fp32", "bf16")])
    fp32, accumulated, reduced = distances
    assert fp32 < 2e-7
    assert accumulated > 1e-3
    assert reduced > 1e-3


def _whole(stages: list[TrainStage]) -> list[dict[str, Any]]:
    ranks = run_ranks(_train, stages[0].training.parallel.world_size, stages)
    return [
        {
            "curve": ranks[0][number]["curve"],
            "gradients": assemble(stage, ROWS, [rank[number]["gradients"] for rank in ranks]),
        }
        for number, stage in enumerate(stages)
    ]


@pytest.mark.parametrize("layout", [(1, 1, 2), (2, 2, 1)], ids="tp{0[0]}-pp{0[1]}-dp{0[2]}".format)
def test_losses_and_gradients_of_bf16_and_fp16_are_close_to_fp32(layout: tuple[int, int, int]) -> None:
    """With fp32 sums and master weights, losses and first gradients differ only by the rounding of the weights.

    If a gradient were counted twice, or a tied gradient only by half, the difference would be far greater.
    """
    precisions = ["fp32", *NEAR]
    results = dict(zip(precisions, _whole([_stage(precision, layout) for precision in precisions]), strict=True))
    right = results["fp32"]
    assert right["curve"][-1][0] < right["curve"][0][0] - 0.5
    for precision, near in NEAR.items():
        for name, gradient in right["gradients"].items():
            if gradient.norm() > 1e-4:
                distance = (results[precision]["gradients"][name] - gradient).norm() / gradient.norm()
                assert distance < near["gradient"], f"{precision}: gradient of {name}"
        for step, (ours, theirs) in enumerate(zip(results[precision]["curve"], right["curve"], strict=True)):
            assert ours[0] == pytest.approx(theirs[0], rel=near["loss"]), f"{precision}: loss of step {step}"
            assert ours[1] == pytest.approx(theirs[1], rel=near["gradient"]), f"{precision}: norm of step {step}"
