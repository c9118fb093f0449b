"""Test how a training is opened: which weights it begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _state(run: Any) -> dict[str, Any]:
    """Return the weights and this rank's fp32 master weights, by name."""
    found = {}
    for name, weight in run.trainer.network.named_parameters():
        found[name] = weight.detach().clone()
        if weight._hp_mapping is not None:
            found[f"master of {name}"] = weight._hp_mapping.hp_fragment.detach().clone()
    return found


def _open_twice(configuration: TrainStage, folder: Path) -> tuple[list[int], list[str]]:
    """Train and save, then open the training again. During both openings, uninitialised memory is filled with NaN.

    Return the number of elements that each opening drew, and what was wrong.
    """
    import torch

    from training.loop.run_segment import train
    from training.model import initialize

    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(3).isnan().all()
    drawn, wrong = [0, 0], []
    normal_numbers = initialize.normal_numbers
    opening = 0

    def counted(key: int, starts: Any, length: int, deviation: float) -> Any:
        drawn[opening] += len(starts) * length
        return normal_numbers(key, starts, length, deviation)

    initialize.normal_numbers = counted
    with opened(configuration, folder) as run:
        wrong += [f"{name} was not drawn" for name, value in _state(run).items() if not value.isfinite().all()]
        matrices = sum(value.numel() for value in run.trainer.network.parameters() if value.dim() == 2)
        if drawn[0] != matrices:
            wrong.append(f"{drawn[0]} elements were drawn, but this rank has {matrices}")
        train(run)
        before = _state(run)
    opening = 1
    with opened(configuration, folder, number=2) as run:
        after = _state(run)
        wrong += [f"{name} was not loaded" for name in before if not torch.equal(before[name], after[name])]
    return drawn, wrong


@pytest.mark.parametrize(
    "configuration", [stage(pipeline=2, samples=24), stage(data=2, samples=24, precision="fp32")], ids=["PP2", "DP2"]
)
def test_weights_are_drawn_only_without_a_checkpoint(configuration: TrainStage, tmp_path: Path) -> None:
    values = configuration.model_dump(mode="json")
    # Learned positions are torch's Embedding, which draws weights when it is created in the usual way.
    values["model"]["positions"] = "learned"
    for drawn, wrong in run_ranks(_open_twice, 2, TrainStage.model_validate(values), tmp_path):
        assert wrong == []
        assert drawn[0] > 0
        assert drawn[1] == 0
