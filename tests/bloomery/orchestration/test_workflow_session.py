"""Test the steps of a workflow before its first job and at its end."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from planned_run import LOGGER, planned
from repository import ROOT

from bloomery.base.errors import ConfigError, InputError
from bloomery.orchestration import slurm_jobs, workflow_session
from bloomery.orchestration.watcher import Watcher
from bloomery.orchestration.workflow_session import WorkflowSession, exit_on_error


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the steps in the order of their calls, without starting a process or calling a scheduler."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BLOOMERY_SITE", raising=False)
    called: list[str] = []

    def step(name: str, result: Any = None) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            called.append(name)
            return result

        return call

    for name in ("start_again", "remember_workflow", "hide_token"):
        monkeypatch.setattr(slurm_jobs, name, step(name))
    monkeypatch.setattr(slurm_jobs, "end_data_jobs", step("end_data_jobs", False))
    monkeypatch.setattr(Watcher, "start", step("start_watcher"))
    monkeypatch.setattr(workflow_session, "refuse_unfit_jobs", step("refuse_unfit_jobs"))
    return called


def start(session: WorkflowSession, *, on_cluster: bool = False) -> None:
    session.start([], is_main_process=True, on_cluster=on_cluster)


def test_a_bloomery_error_is_logged_and_sets_the_exit_code(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(SystemExit) as caught, exit_on_error(LOGGER):
        raise InputError("is damaged", where="x.json")
    assert caught.value.code == InputError.exit_code
    assert [record.message for record in caplog.records] == ["error: x.json: is damaged"]


def test_other_errors_are_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), exit_on_error(LOGGER):
        1 / 0  # noqa: B018


def test_on_one_machine_only_the_watcher_starts(tmp_path: Path, steps: list[str]) -> None:
    start(WorkflowSession(planned(tmp_path), LOGGER))
    assert steps == ["start_watcher"]


def test_only_the_main_process_starts_the_sync(tmp_path: Path, steps: list[str]) -> None:
    session = WorkflowSession(planned(tmp_path), LOGGER)
    session.start([], is_main_process=False, on_cluster=False)
    assert steps == []


def test_on_a_cluster_the_sync_starts_before_the_token_is_hidden(tmp_path: Path, steps: list[str]) -> None:
    start(WorkflowSession(planned(tmp_path), LOGGER), on_cluster=True)
    assert steps == ["refuse_unfit_jobs", "end_data_jobs", "start_watcher", "remember_workflow", "hide_token"]


def test_the_workflow_restarts_after_it_cancels_jobs_of_an_earlier_workflow(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class StartedAgainError(Exception):
        pass

    def start_again() -> None:
        raise StartedAgainError

    monkeypatch.setattr(slurm_jobs, "end_data_jobs", lambda paths: True)
    monkeypatch.setattr(slurm_jobs, "start_again", start_again)
    with pytest.raises(StartedAgainError):
        start(WorkflowSession(planned(tmp_path), LOGGER), on_cluster=True)
    assert steps == ["refuse_unfit_jobs"]


def test_a_second_workflow_is_refused_and_removes_nothing(
    tmp_path: Path, steps: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = planned(tmp_path)
    stale = first.paths.corpus / "clean/gone/00000.parquet"
    stale.parent.mkdir(parents=True)
    stale.touch()
    session = WorkflowSession(planned(tmp_path), LOGGER)
    with pytest.raises(SystemExit) as caught:
        start(session, on_cluster=True)
    assert caught.value.code == 75
    assert "error: " in caplog.text
    assert "another workflow works on this run" in caplog.text
    assert stale.exists()
    assert steps == []


@pytest.mark.parametrize(
    ("wanted", "model", "said"),
    [
        (
            "training_wanted",
            {"family": "bert", "positions": "learned", "embedding_layernorm": False},
            "can be planned, but not trained yet",
        ),
        ("export_wanted", {"positions": "learned"}, "needs the exported model, but export.enabled is false"),
    ],
)
def test_an_unsupported_model_is_refused_only_if_its_training_or_export_is_requested(
    tmp_path: Path, steps: list[str], caplog: pytest.LogCaptureFixture, wanted: str, model: dict[str, Any], said: str
) -> None:
    session = WorkflowSession(planned(tmp_path, model=model, export={"enabled": False}), LOGGER)
    start(session)
    assert steps == ["start_watcher"]
    setattr(session, wanted, True)
    with pytest.raises(SystemExit) as caught:
        start(session)
    assert caught.value.code == 2
    assert said in caplog.text


def test_a_run_that_the_cluster_would_refuse_is_refused_before_any_change(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **asked: Any) -> None:
        assert asked == {"rules": {"measure"}, "trains": True, "shards_per_job": 8}
        raise ConfigError("would refuse jobs of this run")

    monkeypatch.setattr(workflow_session, "refuse_unfit_jobs", refuse)
    session = WorkflowSession(planned(tmp_path), LOGGER)
    session.training_wanted = True
    with pytest.raises(SystemExit) as caught:
        session.start([], is_main_process=True, on_cluster=True, rules={"measure"}, shards_per_job=8)
    assert (caught.value.code, steps) == (2, [])
    assert "would refuse jobs of this run" in caplog.text


def test_shards_of_removed_parts_are_deleted(tmp_path: Path, steps: list[str]) -> None:
    plan = planned(tmp_path)
    files = [plan.paths.corpus / "clean" / name for name in ("web/00000.parquet", "web/00009.parquet", "gone/0.json")]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    start(WorkflowSession(plan, LOGGER))
    assert [path.exists() for path in files] == [True, False, False]


def test_jobs_of_a_cluster_do_not_get_the_urls_of_alerts(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("BLOOMERY_ALERT_URLS", "BLOOMERY_HEARTBEAT_URL")
    for name in names:
        monkeypatch.setenv(name, "json://secret")
    start(WorkflowSession(planned(tmp_path), LOGGER), on_cluster=True)
    assert not set(names) & set(os.environ)


def test_a_started_watcher_is_stopped(tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorded:
        stopped = 0

        def stop(self) -> None:
            self.stopped += 1

    watcher = Recorded()
    session = WorkflowSession(planned(tmp_path), LOGGER)
    session.stop()
    monkeypatch.setattr(Watcher, "start", lambda run: watcher)
    start(session)
    session.stop()
    assert watcher.stopped == 1


def test_a_failure_names_the_logs_and_the_command_that_resumes(
    tmp_path: Path, steps: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "absent/bin/snakemake"), "--configfile", "my run.yaml"])
    WorkflowSession(planned(tmp_path), LOGGER).explain_failure(["a.log", "b.log"])
    command = f"{ROOT}/absent/bin/snakemake --configfile 'my run.yaml'"
    record = caplog.records[-1]
    assert record.message == (
        f"Logs of the jobs: {tmp_path}/runs/small/logs. Snakemake's own log: a.log, b.log.\n"
        f"Finished jobs are not repeated. Fix the cause, then resume with: {command}"
    )
    assert record.__dict__["resume_command"] == command
