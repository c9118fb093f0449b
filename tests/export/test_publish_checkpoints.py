"""Test the publication of checkpoints to a local folder. tests/integration/hub tests the publication on a Hub."""

from __future__ import annotations

import pytest

from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage
from bloomery.contracts.parity import read_parity
from export.publish_checkpoints import publish_checkpoints
from export.publish_target import FolderTarget
from export.published_checkpoint import choose_every


@pytest.mark.slow
def test_an_export_is_used_again_unless_one_of_its_files_or_inputs_changed(fabricate):
    run = fabricate()
    run.add_earlier_checkpoint(50)
    stage = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig(hub=False))

    def publish():
        chosen = choose_every(run.paths, "tiny-bloom", 50, "step00000100")
        target = FolderTarget("publish.hub is false")
        return publish_checkpoints(run.stage, stage, run.paths, chosen, target)

    found = publish()
    folder = run.paths.published / "tiny-bloom-checkpoints" / "step00000050"
    assert [*found] == ["step00000050"]
    parity = read_parity(folder)
    assert (parity.checkpoint, parity.iteration, parity.passed) == ("step00000050", 50, True)
    card = (folder / "README.md").read_text()
    assert "on 6,400 tokens" in card
    assert "5.4321" not in card, "the loss of iteration 100 is not that of this checkpoint"

    before = (folder / "parity.json").stat().st_mtime_ns
    publish()
    assert (folder / "parity.json").stat().st_mtime_ns == before
    (folder / "README.md").write_text("changed")
    publish()
    assert (folder / "README.md").read_text() == card
    for damaged in ("{", "{}"):
        (folder / "parity.json").write_text(damaged)
        publish()
        assert read_parity(folder) == parity
    # A killed publication removed only a part of the folder.
    (folder / "parity.json").unlink()
    publish()
    assert read_parity(folder) == parity
