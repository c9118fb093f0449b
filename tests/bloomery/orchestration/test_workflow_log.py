from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomery.orchestration.workflow_log import WorkflowLog


class Clock:
    """A clock that starts at 00:00:00 UTC and that tests advance."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(lines: list[str], clock: Clock) -> WorkflowLog:
    return WorkflowLog(lines.append, now=clock)


def job(number: int, message: str | None = None, rule: str = "measure", **wildcards: str) -> dict[str, Any]:
    return {
        "event": "job_info",
        "levelname": "INFO",
        "jobid": number,
        "rule_msg": message,
        "rule_name": rule,
        "wildcards": wildcards,
        "shellcmd": "bloomery corpus measure",
    }


def finished(number: int, done: int, total: int) -> list[dict[str, Any]]:
    return [
        {"event": "job_finished", "levelname": "INFO", "job_id": number},
        {"event": "progress", "levelname": "INFO", "done": done, "total": total},
    ]


def failed(number: int, *logs: Path, **more: Any) -> dict[str, Any]:
    names = [str(path) for path in logs]
    return {"event": "job_error", "levelname": "ERROR", "jobid": number, "rule_name": "measure", "log": names, **more}


def message(text: str, level: str = "INFO", **more: Any) -> dict[str, Any]:
    return {"levelname": level, "message": text, **more}


def test_a_finished_job_gets_one_line_with_start_end_and_duration(
    log: WorkflowLog, lines: list[str], clock: Clock
) -> None:
    log.add({"event": "run_info", "stats": {"measure": 3, "all": 1, "total": 4}})
    log.add(job(1, "measure udhr/00000"))
    clock.seconds = 62.5
    for record in finished(1, 1, 4):
        log.add(record)
    assert lines == [
        "4 jobs to run: measure 3, all",
        "[1/4] 00:00:00Z to 00:01:02Z  measure udhr/00000 (1 min 2 s)",
    ]


def test_a_rule_without_a_message_is_named_with_its_wildcards(log: WorkflowLog, lines: list[str]) -> None:
    log.add(job(1, source="udhr", part="00000"))
    for record in finished(1, 1, 1):
        log.add(record)
    assert lines[0].endswith("measure udhr 00000 (0.0 s)")


def test_a_target_rule_prints_no_line(log: WorkflowLog, lines: list[str]) -> None:
    log.add(job(1, "all: everything is there") | {"shellcmd": None})
    for record in finished(1, 1, 1):
        log.add(record)
    assert lines == []


def test_a_long_job_is_announced_and_then_reports_its_progress_each_minute(
    log: WorkflowLog, lines: list[str], clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    log.add(job(1, "measure a/00000") | {"log": [str(path)]})
    log.add(message("Job 1 has been submitted with SLURM jobid 77 (log: x)."))
    for clock.seconds in (9, 10, 11):
        log.report_long_jobs()
    assert lines == ["[0/0] 00:00:00Z  measure a/00000 is running, SLURM job 77"]
    path.write_text("measure: 10 of 20 (50 %) documents, 55 s\n\n")
    for clock.seconds in (69, 70, 71, 200):
        log.report_long_jobs()
    assert lines[1:] == ["[0/0] 00:01:10Z  measure a/00000: measure: 10 of 20 (50 %) documents, 55 s"]


def test_a_training_on_this_machine_shows_its_own_progress(
    log: WorkflowLog, lines: list[str], clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text("iteration 3\n")
    log.add(job(1, "train segment 1", rule="train_segment") | {"log": [str(path)], "local": True})
    for clock.seconds in (10, 70, 130):
        log.report_long_jobs()
    assert lines == ["[0/0] 00:00:00Z  train segment 1 is running"]


def test_a_failed_job_shows_its_cause_and_then_its_log_file(
    log: WorkflowLog, lines: list[str], clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text("reading\nerror: a.jsonl: not UTF-8\n")
    log.add(job(1, "ingest a/00000"))
    clock.seconds = 2
    log.add(message("RuleException:\nCalledProcessError in file x, line 3:\nCommand ...", "ERROR", event="error"))
    log.add(failed(1, path))
    log.add(message("Exiting because a job execution failed. Look above for error messages", "ERROR"))
    log.add(message("Fix the cause.", "ERROR", resume_command="snakemake"))
    log.add(message("WorkflowError:\nAt least one job did not complete successfully.", "ERROR", event="error"))
    assert lines == [
        "[0/0] 00:00:02Z  FAILED after 2.0 s: ingest a/00000",
        "  error: a.jsonl: not UTF-8",
        f"  log: {path}",
        "Fix the cause.",
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [("error: disk is full", "measure a/00002"), ("Killed", "one of the jobs measure a/00001, measure a/00002")],
)
def test_a_failed_group_names_the_job_with_an_error_or_all_its_jobs(
    log: WorkflowLog, lines: list[str], tmp_path: Path, text: str, named: str
) -> None:
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    paths[1].write_text(f"{text}\n")
    for number in (1, 2):
        log.add(job(number, f"measure a/0000{number}"))
    infos = [{"rule_name": "measure", "jobid": number, "log": [str(paths[number - 1])]} for number in (1, 2)]
    log.add({"event": "group_error", "levelname": "ERROR", "job_error_info": infos, "aux_logs": []})
    assert lines == [
        f"[0/0] 00:00:00Z  FAILED after 0.0 s: {named}",
        f"  {text}",
        f"  log: {paths[1]}",
    ]


def test_an_interrupted_workflow_prints_the_resume_command_and_no_failure(
    log: WorkflowLog, lines: list[str], tmp_path: Path
) -> None:
    log.add(job(1, "train segment 1"))
    log.add(message("Terminating processes on user request, this might take some time."))
    log.add(message("Command died with <Signals.SIGINT: 2>.", "ERROR", event="error"))
    log.add(failed(1, tmp_path / "a.log"))
    log.add(message("Fix the cause.", "ERROR", resume_command="snakemake --profile slurm"))
    log.add(message("Complete log(s): x"))
    log.add(message("WorkflowError:\nAt least one job did not complete successfully.", "ERROR", event="error"))
    assert len(lines) == 2
    assert lines[1].endswith("Resume the run with: snakemake --profile slurm")


def test_a_terminated_workflow_says_once_that_it_waits_for_the_running_jobs(log: WorkflowLog, lines: list[str]) -> None:
    for _ in range(3):
        log.add(message("Will exit after finishing currently running jobs (scheduler)."))
    (line,) = lines
    assert "SIGTERM" in line
    assert "waits for the running jobs" in line


def test_snakemakes_internal_messages_are_hidden_and_others_are_shown(log: WorkflowLog, lines: list[str]) -> None:
    for text in ("Building DAG of jobs...", "Select jobs to execute...", "Using shell: /usr/bin/bash", "None", ""):
        log.add(message(text) if text != "None" else {"event": "resources_info", "msg": "Provided cores: 2"})
    log.add(message("Trying to restart job 3."))
    log.add(message("error: run.yaml: no such file", "ERROR"))
    assert lines == ["Trying to restart job 3.", "error: run.yaml: no such file"]


def test_failures_are_red_on_a_terminal_with_colours(lines: list[str]) -> None:
    log = WorkflowLog(lines.append, colour=True)
    log.add(message("error: wrong", "ERROR"))
    log.add(message("plain"))
    assert lines == ["\x1b[31merror: wrong\x1b[0m", "plain"]
