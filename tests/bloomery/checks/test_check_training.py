"""Test that contradictions in a training's layout, batch and schedule are refused."""

from __future__ import annotations

from changed_sample import SAMPLE, changed, message


def test_contradictions_are_refused_with_the_expected_value() -> None:
    assert "hidden_size 130 must be divisible by heads 4; expected: a multiple of 4, such as 132" in message(
        changed(model__hidden_size=130)
    )
    assert "model.heads 3 must be divisible by training.parallel.tensor 2" in message(
        changed(model__heads=3, model__hidden_size=96)
    )
    text = message(changed(training__parallel__pipeline=8))
    assert "cannot fill the pipeline stages of training.parallel.pipeline 8" in text
    assert "expected: training.parallel.pipeline of at most 4" in text
    assert "batch sizes 8 are not divisible by micro_batch_size x parallel.data = 16 x 1" in message(
        changed(training__batch__micro_batch_size=16)
    )
    growing = {"micro_batch_size": 2, "global_batch_size": 16, "rampup": {"start": 8, "increment": 4, "samples": 64}}
    for changes, said in {
        (
            (16, 4),
            (12, 4),
        ): "from_batch 12 must be above 16 and at most 16, because the global batch grows from 8 to 16",
        ((8, 4),): "from_batch 8 must be above 8 and at most 16",
        ((20, 4),): "from_batch 20 must be above 8 and at most 16",
        ((12, 8),): "batch sizes 12 are not divisible by micro_batch_size x parallel.data = 8 x 1",
    }.items():
        listed = [{"from_batch": batch, "size": size} for batch, size in changes]
        assert said in message(changed(training__batch=growing | {"micro_batch_changes": listed}))
    steady = {"global_batch_size": 16, "micro_batch_changes": [{"from_batch": 16, "size": 4}]}
    assert "expected: no micro_batch_changes key, or a ramp-up" in message(changed(training__batch=steady))
    assert "warmup_samples 9999: the warm-up takes" in message(changed(training__optimizer__warmup_samples=9999))
    assert "train_samples 7 does not fill the first batch of 8" in message(changed(training__train_samples=7))
    assert "several sources have the name" in message(changed(sources=SAMPLE["sources"] * 2))
