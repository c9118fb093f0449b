"""Test the probe of a training, and the training's duration that is estimated from the probe's times."""

from __future__ import annotations

import os

import pytest
from changed_sample import changed

from bloomery.base.errors import ResourceError
from bloomery.checks.load_config import validate_config
from data_prep.new_run.estimate_duration import Probe, run_probe, training_seconds

PROBE = Probe(micro_batch_seconds=2.0, update_seconds=1.0, start_seconds=10.0, steps=8)


def small(**training: object):
    batch = {"micro_batch_size": 4, "global_batch_size": 16}
    values = {
        "train_samples": 160,
        "batch": batch,
        "optimizer": {"learning_rate": 1e-3},
        "activation_checkpointing": "none",
        "validation": {"every_iterations": 5, "samples": 6},
        "precision": "fp32",
        **training,
    }
    model = {"layers": 1, "hidden_size": 16, "heads": 2, "sequence_length": 16}
    return validate_config(changed(training=values, model=model))


def test_an_iteration_is_its_micro_batches_and_one_update() -> None:
    assert PROBE.iteration_seconds(small(), 16) == 4 * 2.0 + 1.0
    assert PROBE.iteration_seconds(small(parallel={"data": 2}), 16) == 2 * 2.0 + 1.0


def test_a_training_is_its_start_its_iterations_and_its_validations() -> None:
    # The training has 10 iterations of 9 s. Its 2 validations read 3 sets of 2 micro-batches, each in a third of 2 s.
    assert training_seconds(small(), PROBE, 3) == pytest.approx(10 + 90 + 2 * 3 * 2 * 2 / 3)
    # With recomputation, the forward pass takes a quarter of a micro-batch's time.
    full = small(activation_checkpointing="full")
    assert training_seconds(full, PROBE, 3) == pytest.approx(10 + 90 + 2 * 3 * 2 * 2 / 4)


def test_the_speed_is_that_of_the_full_batch() -> None:
    from bloomery.spec.flops import iteration_flops
    from bloomery.spec.parameters import planned_rows

    config = small()
    operations = iteration_flops(config.model, planned_rows(config), 16, recomputed=False)
    assert PROBE.flops(config) == pytest.approx(operations / 9.0)


@pytest.mark.slow
def test_a_probe_times_real_steps() -> None:
    found = run_probe(small(), seconds=3.0)
    assert found.steps >= 2
    assert 0 < found.micro_batch_seconds < 60
    assert found.update_seconds >= 0
    assert found.start_seconds > 0


def test_a_probe_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_prep.new_run.estimate_duration.planned_rows", lambda _: "many")
    with pytest.raises(ResourceError, match=r"the timing of training steps failed: (?s:.*)--rows"):
        run_probe(small())
    assert "RANK" not in os.environ
