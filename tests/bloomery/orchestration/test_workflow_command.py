from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.typed_command import typed_command
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.stale_artefacts import Stale
from bloomery.orchestration.workflow_command import read_command, rebuild_command, record_command


def test_the_recorded_command_is_read_as_it_can_be_typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = RunPaths(tmp_path / "runs/a")
    (tmp_path / "my project").mkdir()
    monkeypatch.chdir(tmp_path / "my project")
    record_command(paths)
    command = typed_command()
    assert read_command(paths) == command
    monkeypatch.chdir(tmp_path)
    assert read_command(paths) == f"cd '{tmp_path}/my project' && {command}"


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"command": "x"}'])
def test_without_a_readable_record_there_is_no_command(tmp_path: Path, text: str | None) -> None:
    paths = RunPaths(tmp_path)
    if text is not None:
        paths.monitoring.mkdir()
        paths.workflow_command.write_text(text)
    assert read_command(paths) is None


def test_the_command_of_a_copied_or_moved_run_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    original = RunPaths(Path("runs/a"))
    record_command(original)
    stale = {"index": Stale("index", "the corpus", "index")}
    shutil.copytree("runs/a", "runs/copy")
    assert read_command(RunPaths(Path("runs/copy"))) is None
    assert rebuild_command(RunPaths(Path("runs/copy")), stale) is None
    Path("linked").symlink_to("runs")
    for run in (original.run, tmp_path / "runs/a", tmp_path / "linked/a"):
        assert rebuild_command(RunPaths(run), stale) is not None
    original.run.rename("moved")
    assert read_command(RunPaths(Path("moved"))) is None


@pytest.mark.parametrize(
    ("run", "known"), [("there/runs/a", True), ("there/runs/copy", False), ("elsewhere/runs/a", False)]
)
def test_the_command_in_a_record_of_an_earlier_version_builds_the_run_in_its_folder(
    tmp_path: Path, run: str, known: bool
) -> None:
    paths = RunPaths(tmp_path / run)
    (tmp_path / "there").mkdir()
    write_json(paths.config / "publish.json", {"name": "a"})
    write_json(paths.workflow_command, {"command": "snakemake", "folder": str(tmp_path / "there")})
    assert (read_command(paths) is not None) == known


@pytest.mark.parametrize("run", ["", 5, "a\0b", "/" + "x" * 300])
def test_a_record_with_a_wrong_folder_of_the_run_has_no_command(tmp_path: Path, run: object) -> None:
    paths = RunPaths(tmp_path / "a")
    write_json(paths.workflow_command, {"command": "snakemake", "folder": str(tmp_path), "run": run})
    assert read_command(paths) is None
