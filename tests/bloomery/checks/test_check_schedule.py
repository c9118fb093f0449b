"""Test that contradictions in a training's schedule are refused."""

from __future__ import annotations

from changed_sample import changed, message


def test_bert12s_published_warmup_is_refused() -> None:
    # A published script warms up for .16 x 63,600 = 10,176 iterations, but trains only 6,400 at batch size 8,192.
    text = message(
        changed(
            training__train_samples=6400 * 8192,
            training__optimizer__warmup_samples=10176 * 8192,
            training__batch={"micro_batch_size": 4, "global_batch_size": 8192},
        )
    )
    assert "the learning rate would never reach its peak" in text
