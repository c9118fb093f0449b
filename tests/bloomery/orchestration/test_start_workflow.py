"""Test when `bloomery run` starts a workflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from workflow_support import TINY

from bloomery.base import slurm
from bloomery.base.errors import ConfigError, ResourceError
from bloomery.checks.load_config import validate_config
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.workflow_state import WorkflowRecord, read_workflow, write_workflow
from bloomery.orchestration.run_lock import RunLock
from bloomery.orchestration.start_workflow import Decision, choose_profile, decide
from bloomery.orchestration.stop_mark import mark_stopped
from bloomery.orchestration.workflow_end import config_digest

CONFIG = validate_config(TINY)


def record(**fields: object) -> WorkflowRecord:
    made = {"target": "all", "config_digest": config_digest(CONFIG), "started": "2026-01-01T00:00:00Z"}
    return WorkflowRecord.model_validate({"state": "running", **made, **fields})


def decided(paths: RunPaths, target: str = "all") -> Decision:
    return decide(paths, CONFIG, target, most_failures=3)


@pytest.mark.parametrize(
    ("fields", "start", "needs_a_person"),
    [
        ({}, True, False),  # the workflow was killed
        ({"state": "finished"}, False, False),
        ({"state": "finished", "target": "corpus"}, True, False),
        ({"state": "finished", "config_digest": "other"}, True, False),
        ({"state": "stopped"}, False, True),
        ({"state": "stopped", "config_digest": "other"}, False, True),
        ({"state": "failed", "failures": 2}, True, False),
        ({"state": "failed", "failures": 3}, False, True),
    ],
)
def test_the_record_of_the_newest_workflow_decides(
    tmp_path: Path, fields: dict[str, object], start: bool, needs_a_person: bool
) -> None:
    paths = RunPaths(tmp_path)
    write_workflow(paths, record(**fields))
    found = decided(paths)
    assert (found.start, found.needs_a_person) == (start, needs_a_person)


def test_a_new_run_starts_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert decided(paths).start
    mark_stopped(paths)
    assert (decided(paths).start, decided(paths).exit_code) == (False, 75)


def test_a_living_workflow_is_left_alone(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    lock = RunLock.acquire(tmp_path)
    found = decided(paths)
    assert not found.start
    assert "a workflow works on this run (process" in found.reason
    lock.release()
    assert decided(paths).start


def test_a_damaged_record_does_not_prevent_a_start(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_workflow(paths, record(state="finished"))
    (paths.monitoring / "workflow.json").write_text('{"state": "asleep"}')
    assert read_workflow(paths) is None
    assert decided(paths).start


def test_a_workflow_needs_the_snakefile_and_an_existing_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResourceError, match="lacks the file `Snakefile`"):
        choose_profile(None)
    (tmp_path / "Snakefile").touch()
    monkeypatch.setattr(slurm, "has_slurm", lambda: True)
    assert choose_profile(None) == "slurm"
    monkeypatch.setattr(slurm, "has_slurm", lambda: False)
    assert choose_profile(None) == "workflow/profiles/local"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    with pytest.raises(ConfigError, match="no Snakemake profile 'own'"):
        choose_profile("own")
    (tmp_path / "settings/snakemake/own").mkdir(parents=True)
    assert choose_profile("own") == "own"
