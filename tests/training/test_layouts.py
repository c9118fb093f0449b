"""The model, its losses and its gradient norms do not depend on how it is split."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

LAYOUTS = [(1, 1, 1), (2, 2, 1), (1, 2, 2), (4, 1, 1)]


def test_losses_are_the_same_on_every_layout(launcher):
    """fp32, so that only the order of sums differs; a wrong gradient would show in the norm at once."""
    curves = []
    for tensor, pipeline, data in LAYOUTS:
        run = launcher(f"t{tensor}p{pipeline}d{data}", tensor=tensor, pipeline=pipeline, data=data, precision="fp32")
        assert run.segment()["status"] == "finished"
        curves.append(run.losses())
    for layout, curve in zip(LAYOUTS[1:], curves[1:], strict=True):
        for iteration, (loss, norm) in curves[0].items():
            assert curve[iteration] == pytest.approx((loss, norm), rel=2e-6), (layout, iteration)
    losses = [loss for loss, _ in curves[0].values()]
    assert losses[-1] < losses[0] - 1.0


def test_bf16_follows_fp32(launcher):
    """bf16 with fp32 accumulation stays near the fp32 curve."""
    curves = []
    for precision in ("fp32", "bf16"):
        run = launcher(precision, tensor=2, pipeline=2, precision=precision)
        run.segment()
        curves.append(run.losses())
    for iteration, (loss, _) in curves[0].items():
        assert curves[1][iteration][0] == pytest.approx(loss, rel=2e-3)
