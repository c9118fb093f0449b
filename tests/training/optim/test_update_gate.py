"""Test that the update gate skips an update if its function `decide` returns true or if the gradient is not finite."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ranks import run_ranks

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS, LENGTH = 64, 16


def _stage(precision: str, data: int = 1, **training: Any) -> TrainStage:
    from fabricated_training import stage

    raw = stage(precision=precision, data=data).model_dump(mode="json")
    raw["model"] |= {"sequence_length": LENGTH}
    raw["training"] |= {"batch": {"micro_batch_size": 1, "global_batch_size": 2 * data}} | training
    return TrainStage.model_validate(raw)


class _Run:
    """A trainer on this rank that repeats steps on one batch and whose state can be compared."""

    def __init__(self, stage: TrainStage) -> None:
        from whole_model import held_here

        from training.loop.build_engine import build_trainer
        from training.parallel.mesh import build_mesh

        self.trainer = build_trainer(stage, build_mesh(stage.training.parallel), ROWS)
        self.norms: list[float] = []
        self.wanted = False
        self.factor = 1.0
        for _, tensor in held_here(self.trainer):
            tensor.register_hook(lambda gradient: gradient * self.factor)
        self.trainer.gate.decide = self._decide

    def _decide(self, norm: float) -> bool:
        self.norms.append(norm)
        return self.wanted

    def step(self) -> float:
        import torch

        tokens = torch.randint(0, ROWS, (2, 1, LENGTH + 1), generator=torch.Generator().manual_seed(1))
        return float(self.trainer.engine.train_batch(iter([(row[:, :-1], row[:, 1:]) for row in tokens])))

    def state(self) -> list[Any]:
        """Return copies of the weights, the fp32 master weights, the moments and the step counts."""
        from whole_model import weights

        optimizer = self.trainer.engine.optimizer.optimizer
        found = list(weights(self.trainer).values())
        for group in optimizer.param_groups:
            for master in group["params"]:
                found.append(master.detach().clone())
                found += [value.clone() for _, value in sorted(optimizer.state[master].items())]
        return found


def _same(before: list[Any], after: list[Any]) -> bool:
    import torch

    return len(before) == len(after) and all(torch.equal(b, a) for b, a in zip(before, after, strict=True))


def _leave_out(stage: TrainStage) -> list[float]:
    """Run steps with skipped updates, and return the gradient norms.

    In one step, the last replica's gradients are NaN. Every rank checks all assertions.
    """
    import torch.distributed as dist
    from whole_model import step_count

    run = _Run(stage)
    gate, base = run.trainer.gate, run.trainer.engine.optimizer.optimizer
    start = run.state()[: len(list(run.trainer.network.parameters()))]
    run.wanted = True
    run.step()
    assert gate.left_out
    assert _same(start, run.state()[: len(start)])
    assert step_count(base) == 0
    run.wanted = False
    run.step()
    assert not gate.left_out
    assert step_count(base) == 1
    before = run.state()
    assert not _same(start, before[: len(start)])
    # Skip an update because `decide` returns true.
    run.wanted = True
    run.step()
    assert gate.left_out
    assert math.isfinite(gate.norm)
    assert _same(before, run.state())
    # Skip an update because the gradient on one rank is not finite.
    run.wanted = False
    run.factor = math.nan if dist.get_rank() == dist.get_world_size() - 1 else 1.0
    run.step()
    assert gate.left_out
    assert gate.norm == math.inf
    assert _same(before, run.state())
    # A gradient of zero is finite, and Adam still updates by its momentum.
    run.factor = 0.0
    run.step()
    assert not gate.left_out
    assert gate.norm == 0.0
    assert step_count(base) == 2
    run.factor = 1.0
    run.step()
    assert not gate.left_out
    return run.norms


LAMB = {"kind": "lamb", "learning_rate": 0.01, "lamb": {"norms": "stale"}}


@pytest.mark.parametrize(
    ("precision", "data", "training"),
    [("bf16", 2, {}), ("fp32", 2, {}), ("bf16", 1, {}), ("fp32", 2, {"optimizer": LAMB})],
    ids=["bf16-2", "fp32-2", "bf16-1", "fp32-2-LAMB"],
)
def test_a_skipped_update_changes_no_state(precision: str, data: int, training: dict[str, Any]) -> None:
    norms = run_ranks(_leave_out, data, _stage(precision, data, **training))
    assert all(each == norms[0] for each in norms), "all ranks must get the same norms"
    assert len(norms[0]) == 6, "each iteration must request one decision"
    assert norms[0][0] == norms[0][1], "the norm must repeat, because the first update was skipped"


def _overflow(stage: TrainStage) -> None:
    run = _Run(stage)
    gate, before = run.trainer.gate, run.state()[: len(list(run.trainer.network.parameters()))]
    assert gate.loss_scale == 2.0**40
    # The first overflow keeps the scale (hysteresis). Each later overflow halves the scale.
    for scale in (2.0**40, 2.0**39, 2.0**38):
        run.step()
        assert (gate.left_out, gate.overflowed, gate.norm) == (True, True, math.inf)
        assert gate.loss_scale == scale
    assert _same(before, run.state()[: len(before)])
    assert run.norms == []
    while gate.overflowed:
        run.step()
    assert gate.loss_scale >= 1.0
    assert not gate.left_out
    assert run.norms == [gate.norm]
    assert not _same(before, run.state()[: len(before)])
    # At the minimum scale, an overflow counts as a gradient that is not finite.
    run.trainer.engine.optimizer.loss_scaler.cur_scale = 1.0
    run.factor = math.nan
    run.step()
    assert (gate.left_out, gate.overflowed, run.norms[-1]) == (True, False, math.inf)


def test_fp16_finds_its_loss_scale_without_calls_of_the_guard() -> None:
    run_ranks(_overflow, 1, _stage("fp16", loss_scale={"initial_power": 40}, optimizer=LAMB))
