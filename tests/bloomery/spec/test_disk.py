"""Bytes on disk: checkpoints that are kept, and the token index."""

from __future__ import annotations

from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from bloomery.spec.disk import disk_bytes, kept_checkpoints
from bloomery.spec.trajectory import trajectory


def test_checkpoints_that_are_kept(bloom: RunConfig) -> None:
    assert kept_checkpoints(bloom, 115_311) == 115 + 15 + 1
    assert kept_checkpoints(bloom, 250) == 3 + 1
    assert disk_bytes(bloom).checkpoints == 131 * 14 * 176_247_271_424


def test_a_run_that_ends_by_tokens_fills_disk_for_what_it_really_does() -> None:
    curriculum = load_config(ROOT / "config/models/tr8-104b-curriculum.yaml")
    run = trajectory(curriculum.model, curriculum.training).end
    # 89,033 iterations of the 292,968 that 600 M samples would be: 59 kept for good, the last 15, one in writing.
    assert (run.iteration, disk_bytes(curriculum).kept_checkpoints) == (89_033, 59 + 15 + 1)
    assert disk_bytes(curriculum).index == run.consumed_samples * 2048 * 2
