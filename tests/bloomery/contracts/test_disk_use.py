"""Test the disk space of checkpoints, logs and the token index."""

from __future__ import annotations

from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.run import RunConfig
from bloomery.contracts.disk_use import disk_use, kept_checkpoints
from bloomery.spec.trajectory import trajectory


def test_kept_checkpoints_are_counted_by_the_checkpoint_rules(bloom: RunConfig) -> None:
    assert kept_checkpoints(bloom, 115_311) == 115 + 15 + 1
    assert kept_checkpoints(bloom, 250) == 3 + 1
    use = disk_use(bloom)
    assert use.checkpoints == 131 * use.checkpoint


def test_a_run_that_ends_by_tokens_needs_disk_only_for_its_real_iterations() -> None:
    curriculum = load_config(ROOT / "config/models/tr8-104b-curriculum.yaml")
    run, use = trajectory(curriculum.model, curriculum.training).end, disk_use(curriculum)
    # The run ends after 89,033 of the 292,968 iterations of 600 M samples. It keeps 59 checkpoints permanently and the
    # last 15, and one more is being written.
    assert (run.iteration, use.kept_checkpoints) == (89_033, 59 + 15 + 1)
    assert use.index_parts.tokens == run.consumed_samples * 2048 * 2


def test_the_total_is_the_sum_of_all_artefacts_on_the_disk(bloom: RunConfig) -> None:
    use = disk_use(bloom)
    assert use.total == use.checkpoints + use.export + use.index + use.logs
