from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.typed_command import typed_command
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.workflow_command import read_command, record_command


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
