"""Test the scalars for TensorBoard."""

from __future__ import annotations

import math

from step_records import step

from bloomery.contracts.curves import scalars


def test_only_measured_values_become_scalars() -> None:
    plain = scalars(step(1, fastest_seconds=None, slowest_seconds=None))
    assert {"loss-scale/loss-scale", "throughput/MFU", "iteration-time/slowest rank"}.isdisjoint(plain)
    fp16 = scalars(step(1, loss_scale=1024.0, mfu=0.5, sequence_length=16, grad_norm=math.inf))
    assert (fp16["loss-scale/loss-scale"], fp16["throughput/MFU"], fp16["sequence-length/sequence-length"]) == (
        1024.0,
        0.5,
        16,
    )
    assert "grad-norm/grad-norm" not in fp16
