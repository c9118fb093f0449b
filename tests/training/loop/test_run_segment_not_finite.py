"""Test that the guard's events, the counter and the log line agree on what is not finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records, steps

from bloomery.config.stages import TrainStage
from bloomery.contracts.logline import read_log

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _hurt(runs: list[tuple[TrainStage, Path]], bad: list[int]) -> None:
    """Run segments whose gradients are infinite in the iterations of `bad`, while all losses stay finite."""
    from whole_model import held_here

    from training.loop.run_segment import train

    for configuration, folder in runs:
        with opened(configuration, folder) as run:

            def hurt(gradient: Any, run: Any = run) -> Any:
                return gradient * (math.inf if run.position.iteration + 1 in bad else 1.0)

            for _, tensor in held_here(run.trainer):
                tensor.register_hook(hurt)
            train(run)


def test_event_counter_and_log_line_agree_on_non_finite_gradients(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"samples": 40, "validation": {"every_iterations": 100}}
    # The scale starts at 2 and its minimum is 1. The first overflow halves it, and the second one happens at the
    # minimum.
    scale = {"initial_power": 1, "hysteresis": 1, "minimum": 1}
    fp16, bf16 = tmp_path / "fp16", tmp_path / "bf16"
    runs = [(stage(precision="fp16", loss_scale=scale, **shared), fp16), (stage(precision="bf16", **shared), bf16)]
    run_ranks(_hurt, 1, runs, [2, 3])

    for folder, scales, overflowed, not_finite in (
        (fp16, [2.0, 2.0, 1.0, 1.0], [False, True, False, False], [0, 0, 1, 0]),
        (bf16, [None] * 4, [None] * 4, [0, 1, 1, 0]),
    ):
        found = list(steps(folder).values())
        assert [each["grad_norm"] is None for each in found] == [False, True, True, False]
        assert None not in [each["loss"] for each in found]
        assert [each.get("loss_scale") for each in found] == scales
        assert [each.get("overflowed") for each in found] == overflowed
        assert [each["skipped_updates"] for each in found] == [0, 1, 2, 2]
        assert [each["non_finite"] for each in found] == [sum(not_finite[: n + 1]) for n in range(4)]
        log = [line for _, line in read_log(folder / "train" / "logs" / "main_log.txt")]
        assert [line.skipped_iterations for line in log] == [0, 1, 1, 0]
        assert [line.nan_iterations for line in log] == not_finite
        told = [each["iteration"] for each in records(folder) if each.get("event") == "non_finite"]
        assert told == [n + 1 for n in range(4) if not_finite[n]]
