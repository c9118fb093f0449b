"""Test the text and the sizes of a dry run without a Hub. tests/integration/hub tests a dry run on a Hub."""

from __future__ import annotations

from bloomery.base.bundle import Bundle, LocalFile
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.model import ModelConfig
from bloomery.config.stages import ExportStage, PublishStage
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.paths import RunPaths
from export.publication_plan import plan_lines, plan_publication
from export.publish_target import FolderTarget
from export.published_checkpoint import CheckpointPaths


def test_a_dry_run_without_a_hub_names_the_folders_files_and_sizes(tmp_path):
    paths = RunPaths(tmp_path / "tiny")
    model = ModelConfig(layers=2, hidden_size=32, heads=4, sequence_length=32)
    export = ExportStage(name="tiny", model_name="tiny", export=ExportConfig(), model=model, licences={})
    publish = PublishStage(name="tiny", model_name="tiny", publish=PublishConfig(model_repository="shown"))
    final = Bundle("shown", {"a": LocalFile.of(b"x" * 2048), "b": LocalFile.of(b"y")}, mirror=True)
    earlier = CheckpointPaths.of(paths, "tiny", paths.checkpoints / step_name(50))
    target = FolderTarget("publish.hub is false")
    plan = plan_publication(export, publish, paths, final, "step00000100", [earlier], target)
    assert plan_lines(plan) == [
        f"{paths.published}: a local folder, because publish.hub is false",
        "shown (step00000100): 2.0 KiB to send",
        "  send    2.0 KiB  a",
        "  send    1 B  b",
        "shown-checkpoints (step00000050): about 2.0 KiB to send",
        "  send    about 2.0 KiB  a",
        "  send    about 1 B  b",
        "dry run: nothing was written",
    ]
    assert [*tmp_path.iterdir()] == []
