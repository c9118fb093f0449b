"""Print one line for each finished job of a running workflow, and the cause of each failed job.

Snakemake describes events as log records. `WorkflowLog` turns them into lines; `snakemake_logger_plugin_bloomery`
connects it to Snakemake.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.failure_cause import failure_cause, is_error_message, last_line
from bloomery.base.units import format_seconds

_ANNOUNCE_AFTER_SECONDS = 10.0
"""Seconds after which a running job gets its first line."""
_REPORT_EVERY_SECONDS = 60.0
"""Seconds between the later lines of a running job, which show its progress."""
_ROUTINE = re.compile(
    r"Assuming unrestricted shared filesystem|Building DAG of jobs|Using shell:|Select jobs to execute"
    r"|Elapsed time|Complete log\(s\)|Exiting because a job execution failed"
    r"|Removing temporary output|Touching output file|SLURM run ID|No (SLURM account|wall time|job memory)"
    r"|Storing output in storage|Retrieving|Conda environments"
    r"|Activating|Number of jobs in SLURM|Cleaning up|Workflow finished|Finished job|Updating checkpoint"
    r"|Updating job|DAG of jobs will be updated|Waiting at most"
)
"""Messages of Snakemake that repeat what the lines of this log show, or that contain nothing about the run."""
_SUBMITTED = re.compile(r"Job (\d+) has been submitted with SLURM jobid (\d+)")
_TRAINING_RULE = "train_segment"
"""Rule that trains. A training on this machine, outside of a SLURM job, shows its own progress bar."""
_INTERRUPTED = "Terminating processes on user request"
_TERMINATED = "Will exit after finishing currently running jobs"
_COLOURS = {"green": 32, "yellow": 33, "red": 31}


@dataclass
class _Job:
    """One running job."""

    name: str
    started: float
    """Unix time."""
    report_at: float
    """Unix time of the next line about the running job."""
    log: Path | None = None
    """File whose last line is the progress of the job; None if the job has no log or shows its progress itself."""
    reported: str = ""
    """Progress that was shown last."""
    slurm: str = ""
    """Id of the SLURM job in which this job runs; empty if it runs on this machine."""


class WorkflowLog:
    """Turns Snakemake's events into lines. Its methods may be called by several threads."""

    def __init__(
        self, write: Callable[[str], None], *, colour: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        """Args: `write` takes one line without its line break; `colour` allows colours; `now` returns Unix time."""
        self._write = write
        self._colour = colour
        self._now = now
        self._lock = threading.RLock()
        self._running: dict[int, _Job] = {}
        self._finished: list[tuple[_Job, float]] = []
        """Jobs that finished after the last progress event, with the time of their end."""
        self._done = 0
        self._total = 0
        self._interrupted = False
        self._terminated = False

    def add(self, record: Mapping[str, Any]) -> None:
        """Take one log record of Snakemake (its `__dict__`) and write its lines, if it has any."""
        event = str(record.get("event") or "")
        handler = {
            "workflow_started": self._ignore,
            "resources_info": self._ignore,
            "job_started": self._ignore,
            "shellcmd": self._ignore,
            "group_info": self._ignore,
            "rulegraph": self._ignore,
            "debug_dag": self._ignore,
            "run_info": self._run_info,
            "job_info": self._job_info,
            "job_finished": self._job_finished,
            "progress": self._progress,
            "job_error": self._job_error,
            "group_error": self._group_error,
            "error": self._error,
        }.get(event, self._message)
        with self._lock:
            handler(record)

    def report_long_jobs(self) -> None:
        """Write a line for each job that has been running for a while: first that it runs, and later its progress."""
        with self._lock:
            for job in self._running.values():
                if self._now() < job.report_at or self._interrupted:
                    continue
                first = job.report_at == job.started + _ANNOUNCE_AFTER_SECONDS
                job.report_at = self._now() + _REPORT_EVERY_SECONDS
                progress = last_line(job.log) if job.log is not None else ""
                if first:
                    where = f", SLURM job {job.slurm}" if job.slurm else ""
                    self._line(f"{self._count()} {_clock(job.started)}  {job.name} is running{where}")
                elif progress != job.reported:
                    self._line(f"{self._count()} {_clock(self._now())}  {job.name}: {progress}")
                job.reported = progress

    def _ignore(self, record: Mapping[str, Any]) -> None:
        """Write nothing."""

    def _run_info(self, record: Mapping[str, Any]) -> None:
        stats = {name: count for name, count in (record.get("stats") or {}).items() if name != "total"}
        if stats:
            self._total = sum(stats.values())
            listed = ", ".join(name if count == 1 else f"{name} {count}" for name, count in stats.items())
            self._line(f"{self._total} jobs to run: {listed}")

    def _job_info(self, record: Mapping[str, Any]) -> None:
        if not record.get("shellcmd"):
            return  # a target: a rule that only collects files
        name = record.get("rule_msg") or " ".join([record["rule_name"], *map(str, record["wildcards"].values())])
        logs, now = record.get("log") or [], self._now()
        shows_itself = record["rule_name"] == _TRAINING_RULE and record.get("local")
        log = Path(logs[0]) if logs and not shows_itself else None
        self._running[record["jobid"]] = _Job(str(name), now, now + _ANNOUNCE_AFTER_SECONDS, log)

    def _job_finished(self, record: Mapping[str, Any]) -> None:
        if job := self._running.pop(record["job_id"], None):
            self._finished.append((job, self._now()))

    def _progress(self, record: Mapping[str, Any]) -> None:
        self._done, self._total = record["done"], record["total"]
        self._write_finished()

    def _write_finished(self) -> None:
        for job, ended in self._finished:
            times = f"{_clock(job.started)} to {_clock(ended)}"
            self._line(f"{self._count()} {times}  {job.name} ({format_seconds(ended - job.started)})")
        self._finished.clear()

    def _job_error(self, record: Mapping[str, Any]) -> None:
        job = self._running.pop(record["jobid"], None)
        name = job.name if job else str(record["rule_name"])
        logs = [*record.get("log", ()), *_auxiliary_logs(record.get("aux") or {})]
        self._failure(name, job, dict.fromkeys(logs, name))

    def _group_error(self, record: Mapping[str, Any]) -> None:
        infos = record.get("job_error_info") or []
        jobs = [self._running.pop(info["jobid"], None) for info in infos]
        names = [job.name if job else str(info["rule_name"]) for job, info in zip(jobs, infos, strict=True)]
        together = f"one of the jobs {', '.join(names)}" if len(names) > 1 else "".join(names)
        logs = {log: name for name, info in zip(names, infos, strict=True) for log in info["log"]}
        self._failure(together, next(iter(jobs), None), logs | dict.fromkeys(record.get("aux_logs", ()), together))

    def _failure(self, name: str, job: _Job | None, logs: Mapping[str, str]) -> None:
        """Write that a job failed, and the cause.

        `logs` maps each log file to the name of the job that writes it. The line names the job whose log contains the
        cause, because Snakemake reports all jobs of a failed group. If no log contains an error, the line shows `name`.
        """
        if self._interrupted:
            return  # an interrupted job did not fail
        took = f" after {format_seconds(self._now() - job.started)}" if job else ""
        cause, log = failure_cause([Path(log) for log in logs])
        failed = logs.get(str(log), name) if cause and is_error_message(cause[0]) else name
        self._line(f"{self._count()} {_clock(self._now())}  FAILED{took}: {failed}", "red")
        for line in cause:
            self._line(f"  {line}")
        if log is not None:
            self._line(f"  log: {log}")
        if job and job.slurm:
            self._line(f"  SLURM job: {job.slurm}")

    def _error(self, record: Mapping[str, Any]) -> None:
        text = _text(record)
        repeats = "CalledProcessError" in text or "At least one job did not complete successfully" in text
        if not repeats and not self._interrupted:
            self._line(text, "red")

    def _message(self, record: Mapping[str, Any]) -> None:
        text = _text(record)
        if command := record.get("resume_command"):
            if self._interrupted:
                self._line(
                    f"interrupted; the outputs of finished jobs are kept. Resume the run with: {command}", "yellow"
                )
                return
        elif text.startswith(_INTERRUPTED):
            self._interrupted = True
            self._line(
                "stopping the workflow: running jobs are ended, and a training first saves a checkpoint", "yellow"
            )
            return
        elif text.startswith(_TERMINATED):
            # Snakemake repeats this message after each job that finishes.
            if not self._terminated:
                self._line(
                    "the workflow was asked to end (SIGTERM): it starts no further job and waits for the running jobs. "
                    "Ctrl-C (SIGINT) ends these jobs too",
                    "yellow",
                )
            self._terminated = True
            return
        elif submitted := _SUBMITTED.search(text):
            if job := self._running.get(int(submitted.group(1))):
                job.slurm = submitted.group(2)
            return
        elif (
            not text.strip()
            or (self._interrupted and record.get("levelname") != "CRITICAL")
            or (_ROUTINE.match(text) and record.get("levelname") in ("INFO", "ERROR"))
        ):
            return
        self._line(text, {"ERROR": "red", "CRITICAL": "red", "WARNING": "yellow"}.get(str(record.get("levelname")), ""))

    def _line(self, text: str, colour: str = "") -> None:
        if self._finished and not text.startswith("["):
            self._write_finished()
        painted = f"\033[{_COLOURS[colour]}m{text}\033[0m" if colour and self._colour else text
        self._write(painted)

    def _count(self) -> str:
        """Return the number of finished jobs and the number of all jobs, as `[ 4/80]`."""
        width = len(str(self._total))
        return f"[{self._done:>{width}}/{self._total}]"


def _text(record: Mapping[str, Any]) -> str:
    return str(record.get("message") or record.get("msg") or "")


def _clock(seconds: float) -> str:
    """Return the time of day in UTC, such as `19:27:01Z`."""
    return time.strftime("%H:%M:%SZ", time.gmtime(seconds))


def _auxiliary_logs(aux: Mapping[str, Any]) -> list[str]:
    """Return the log files in `aux`, the extra values that an executor reports for a failed job."""
    return [str(value) for key, value in aux.items() if "log" in key and value]
