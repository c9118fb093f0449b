"""Test the comparison with recorded losses: it finds a changed loss and states how many steps it compared."""

from __future__ import annotations

import json

import golden_losses
import pytest

STEPS = 40


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Return a function that compares a recording to a run on an AVX-512 processor that has one different loss."""
    monkeypatch.setattr(golden_losses, "processor", lambda: ["avx2", "avx512f"])

    def run(recorded: list[str], moved: int, steps: int = STEPS) -> golden_losses.Comparison:
        losses = [8 - step / 10 for step in range(STEPS)]
        golden = tmp_path / "golden.json"
        golden.write_text(json.dumps({"processor": recorded, "losses": losses}))
        losses[moved - 1] *= 1 + 1.5e-4
        lines = [
            json.dumps({"iteration": step, "loss": losses[step - 1], "grad_norm": 1.0}) for step in range(1, steps + 1)
        ]
        metrics = tmp_path / "metrics.jsonl"
        metrics.write_text("\n".join([*lines, json.dumps({"iteration": steps, "validation_mean": 1.0})]))
        return golden_losses.compare(golden, metrics)

    return run


def test_on_the_recorded_kind_of_processor_every_step_is_compared(compare):
    found = compare(["avx2", "avx512f"], moved=STEPS)
    assert (found.compared, found.steps) == (STEPS, STEPS)
    assert [each.split(":")[0] for each in found.moved] == [f"step {STEPS}"]


def test_on_another_kind_of_processor_only_the_first_steps_are_compared(compare):
    found = compare(["avx2"], moved=STEPS)
    assert not found.moved
    assert str(found) == (
        "golden losses: 10 of 40 steps compared, this processor has avx2+avx512f, the recorded one avx2"
    )
    assert [each.split(":")[0] for each in compare([], moved=10).moved] == ["step 10"]


def test_another_number_of_steps_is_a_difference(compare):
    found = compare(["avx2", "avx512f"], moved=1, steps=STEPS - 1)
    assert (found.compared, found.moved) == (0, ["39 steps, 40 were recorded"])
