"""Test a training that resumes with changed keys: after the checkpoint, only the new values apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records, steps

from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import read_checkpoint, step_folders
from bloomery.spec.next_step import next_step

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

BEFORE: dict[str, Any] = {
    "samples": 160,
    "batch": {"micro_batch_size": 2, "global_batch_size": 16},
    "optimizer": {"learning_rate": 0.01, "warmup_samples": 16},
    "segment": {"iterations": 3},
    "validation": {"every_iterations": 100},
}
AFTER: dict[str, Any] = BEFORE | {
    "samples": 190,
    "batch": {"micro_batch_size": 4, "global_batch_size": 24},
    "optimizer": {
        **{"learning_rate": 0.004, "schedule": "linear", "min_learning_rate": 0.001},
        **{"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, "weight_decay": 0.3, "gradient_clipping": 0.5},
    },
    "segment": {},
    "on_change": "continue",
}


def run(configuration: TrainStage, folder: Path) -> dict[str, Any]:
    """Run a segment. Return how the segment ended and which settings the optimizer used."""
    from training.loop.run_segment import train

    with opened(configuration, folder) as state:
        ended = train(state)
        wrapper = state.trainer.engine.optimizer
        return {
            "segment": ended.model_dump(),
            "groups": [{key: each[key] for key in ("betas", "eps")} for each in wrapper.optimizer.param_groups],
            "decays": sorted(each["weight_decay"] for each in wrapper.optimizer.param_groups),
            "clipping": state.trainer.engine.gradient_clipping(),
            "rates": {each["lr"] for each in wrapper.optimizer.param_groups},
            "steps": {int(value["step"]) for value in wrapper.optimizer.state.values()},
        }


def test_schedule_batch_and_optimizer_change_at_a_checkpoint(tmp_path: Path) -> None:
    before, after = stage(**BEFORE), stage(**AFTER)
    after = after.model_copy(update={"model": after.model.model_copy(update={"stable_attention": False})})
    (first,) = run_ranks(run, 1, before, tmp_path)
    assert (first["segment"]["iteration"], first["segment"]["total_iterations"]) == (3, 10)
    assert first["decays"] == [0.0, 0.1]
    (second,) = run_ranks(run, 1, after, tmp_path)
    # 3 iterations read 48 samples, then 5 batches read 24 each. The rest of the 190 samples does not fill a batch.
    ended = second["segment"]
    assert (ended["status"], ended["first_iteration"], ended["iteration"]) == ("finished", 4, 8)
    assert (ended["total_iterations"], ended["consumed_samples"]) == (8, 168)
    assert second["groups"] == [{"betas": (0.8, 0.99), "eps": 1e-6}] * 2
    assert second["decays"] == [0.0, 0.3]
    assert second["clipping"] == 0.5
    assert second["steps"] == {8}, "the optimizer's moments are loaded from the checkpoint"
    found = steps(tmp_path)
    assert sorted(found) == list(range(1, 9))
    for iteration, record in found.items():
        start = record["consumed_samples"] - record["global_batch_size"]
        configured = before if iteration <= 3 else after
        planned = next_step(configured.model, configured.training, start, record["consumed_tokens"] - 32 * 24)
        assert planned is not None
        assert record["learning_rate"] == planned.learning_rate
        assert record["global_batch_size"] == planned.global_batch_size
        assert record["tflops_hardware"] == pytest.approx(4 / 3 * record["tflops_model"]), "every block is recomputed"
        assert record["total_iterations"] == (10 if iteration <= 3 else 8)
    for ran, last in ((first, 3), (second, 8)):
        assert ran["rates"] == {found[last]["learning_rate"]}, "the optimizer used the logged learning rate"
    (event,) = [record for record in records(tmp_path) if "event" in record]
    assert (event["event"], event["iteration"], event["segment"]) == ("resumed", 3, 1)
    assert event["message"].startswith(
        "configuration keys with new values from iteration 4 on: model.stable_attention: true -> false; "
    )
    assert " training.batch.global_batch_size: 16 -> 24; " in event["message"]
    manifest = read_checkpoint(step_folders(tmp_path / "train" / "checkpoints")[0])
    assert {change.iteration for change in manifest.changes} == {3}
    assert {change.key.removeprefix("training.") for change in manifest.changes} == {
        *("train_samples", "batch.micro_batch_size", "batch.global_batch_size"),
        *(f"optimizer.{key}" for key in AFTER["optimizer"]),
        "optimizer.warmup_samples",
        "model.stable_attention",
    }


def test_a_scaled_learning_rate_follows_the_batch_after_a_checkpoint(tmp_path: Path) -> None:
    scaling = {"base_batch": 16, "base_learning_rate": 0.01, "cap": 0.012, "warmup_iterations": 2}
    shape = BEFORE | {"optimizer": {"schedule": "constant"}, "batch_scaling": scaling}
    larger = {"samples": 160, "batch": {"micro_batch_size": 4, "global_batch_size": 24}, "on_change": "continue"}
    (first,) = run_ranks(run, 1, stage(**shape), tmp_path)
    (second,) = run_ranks(run, 1, stage(**shape | larger), tmp_path)
    # The warm-up of two iterations has 32 samples with a batch of 16, and 48 samples with a batch of 24.
    assert [record["learning_rate"] for record in steps(tmp_path).values()][:4] == [0.005, 0.01, 0.01, 0.012]
    assert (first["rates"], second["rates"]) == ({0.01}, {0.012})
    manifest = read_checkpoint(step_folders(tmp_path / "train" / "checkpoints")[0])
    changes = {change.key.removeprefix("training."): (change.before, change.after) for change in manifest.changes}
    assert (changes["optimizer.learning_rate"], changes["optimizer.warmup_samples"]) == ((0.01, 0.012), (32, 48))
