"""Snakemake's executor plugin `bloomery-slurm` (`--executor bloomery-slurm`; the profile `slurm` chooses it).

Snakemake finds plugins by the name of their top-level package, so this package is outside of `bloomery`. The plugin is
a subclass of the original `slurm` plugin (version 2.8), which still builds the sbatch commands. It differs where the
original stops or forgets its jobs during ordinary faults of a cluster:

- If squeue does not answer, all jobs stay active. The original forgets its jobs and waits forever.
- A job that squeue has forgotten is judged by its output files. The original waits for such a job forever.
- A submission is repeated if the scheduler was away. A submission that SLURM refused fails at once.
- A training segment that already waits or runs in the queue is adopted instead of submitted again.
- The end of a training job is judged by the segment's records: a fault of the cluster makes the chain continue.
- Ctrl-C cancels every job that was submitted and has not ended, and repeats scancel until it succeeds.
- No program of SLURM's accounting is needed.
"""

from __future__ import annotations

import asyncio
import shlex
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm import common_settings as common_settings
from snakemake_executor_plugin_slurm.utils import get_job_wildcards
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from bloomery.base import slurm
from bloomery.base.backoff import pauses
from bloomery.base.errors import BloomeryError
from bloomery.orchestration.job_outcome import Outcome, outcome
from bloomery.orchestration.settle_training import live_training_job, renew_options, run_of, segment_number, settle
from bloomery.orchestration.submission import is_temporary, refusal, submitted_job
from snakemake_executor_plugin_bloomery_slurm.settings import ExecutorSettings as ExecutorSettings

_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0
_SUBMISSION_SECONDS = 24 * 3600.0
"""Time for which a submission is repeated while the scheduler is away."""
_CANCEL_SECONDS = 600.0
"""Time for which a cancellation is repeated while the scheduler is away."""
_SLICE_SECONDS = 0.2


# The original asks the scheduler for MinJobAge, and advises a status command that this executor does not use.
snakemake_executor_plugin_slurm.validate_status_command_settings = lambda *_: None


class Executor(SlurmExecutor):  # type: ignore[misc]
    """The SLURM executor, which survives faults of the cluster."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        # The original's constructor starts the thread that polls, so these attributes must exist before it.
        self._unfinished: dict[str, SubmittedJobInfo] = {}
        self._known: set[str] = set()
        """Ids of all jobs that were submitted or adopted."""
        self._stopping = threading.Event()
        self._caught = threading.local()
        self._one_submission = threading.Lock()
        """Lock that makes the threads submit one after another, so that `_known` is complete at each search."""
        self._away_since: float | None = None
        self._absent: dict[str, int] = {}
        """Number of the scheduler's last answers in a row that did not list a job, by the job's id."""
        self._pause_seconds = 1.0
        super().__init__(workflow, logger)

    # Submission

    def run_job(self, job: Any) -> None:
        """Submit a job, or adopt the training job that already runs it. Repeat while the scheduler is away."""
        number = segment_number(job)
        deadline, tried = time.monotonic() + _SUBMISSION_SECONDS, False
        for pause in pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS):
            if self._stopping.is_set():
                return
            try:
                with self._one_submission:
                    # A failed sbatch may have submitted the job, so a second try searches for the job first.
                    found = self._already_submitted(job, number, tried)
                    if found is not None:
                        self._report_found(job, found)
                        return
                    error, tried = self._submit_once(job), True
                if error is None:
                    return
                if not is_temporary(error) or time.monotonic() > deadline:
                    self.logger.error(f"error: {job.name}: {refusal(error)}")
                    super()._report_job_error_threadsafe(SubmittedJobInfo(job), error)
                    return
            except BloomeryError as away:
                error = str(away)
            first_line = error.strip().splitlines()[0]
            self.logger.warning(f"cannot submit {job.name} yet ({first_line}); trying again in {pause:.0f} s")
            self._stopping.wait(pause)

    def _submit_once(self, job: Any) -> str | None:
        """Submit the job. Return the error of sbatch, or None after a success."""
        self._caught.message = None
        self._caught.active = True
        try:
            super().run_job(job)
        finally:
            self._caught.active = False
        message: str | None = self._caught.message
        return message

    def _report_job_error_threadsafe(self, job_info: SubmittedJobInfo, msg: str) -> None:
        if getattr(self._caught, "active", False):
            self._caught.message = msg
        else:
            super()._report_job_error_threadsafe(job_info, msg)

    def _already_submitted(self, job: Any, number: int | None, tried: bool) -> slurm.QueuedJob | None:
        """Return the job in the queue that already runs `job`, or None. Raises TryAgainError without an answer.

        A training segment may have been submitted by the segment before it or by an earlier workflow. Another job can
        be in the queue only if sbatch was already tried, because jobs of earlier workflows were cancelled.
        """
        if number is not None:
            renew_options(run_of(job), job)
            return live_training_job(run_of(job), number)
        if not tried:
            return None
        # The original plugin escapes double quotes for the shell that runs sbatch, which removes the escapes again.
        return submitted_job(self.run_uuid, _comment(job), self.format_job_exec(job), self._known)

    def _report_found(self, job: Any, found: slurm.QueuedJob) -> None:
        self.logger.info(f"adopting SLURM job {found.job} ({found.state.lower()}), which already runs {job.name}")
        self._report_job_submission_threadsafe(
            SubmittedJobInfo(job, external_jobid=found.job, aux={"name": found.name})
        )

    def _report_job_submission_threadsafe(self, job_info: SubmittedJobInfo) -> None:
        """Note a submitted job at once, so that a Ctrl-C cancels it before the main thread has registered it."""
        self._known.add(job_info.external_jobid)
        self._unfinished[job_info.external_jobid] = job_info
        super()._report_job_submission_threadsafe(job_info)

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """Yield the option of the job's account. Unlike the original, ask no program of the accounting."""
        account = job.resources.get("slurm_account")
        yield f" -A {shlex.quote(str(account))}" if account else ""

    def get_partition_arg(self, job: Any) -> str:
        """Return the option of the job's partition. Without a partition, SLURM chooses its default partition."""
        partition = job.resources.get("slurm_partition")
        return f" -p {shlex.quote(str(partition))}" if partition else ""

    # States of the jobs

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that ended, and yield every other job, so that no job is ever forgotten."""
        # The thread that polls starts before the original's constructor has ended, but without jobs.
        states = await self._states(active_jobs) if active_jobs else {}
        ended = 0
        for info in active_jobs:
            if states is None:
                yield info
                continue
            state = states.get(info.external_jobid)
            self._absent[info.external_jobid] = 0 if state else self._absent.get(info.external_jobid, 0) + 1
            result = outcome(state, self._absent[info.external_jobid])
            if result is Outcome.ACTIVE:
                yield info
                continue
            try:
                await self._report_end(info, result, state)
                ended += 1
            except OSError as error:
                # For example, this machine has no memory for another process.
                self.logger.warning(f"cannot judge the end of SLURM job {info.external_jobid} yet: {error}")
                yield info
        self._set_pause(ended)

    async def _states(self, active_jobs: list[SubmittedJobInfo]) -> dict[str, str] | None:
        """Return the state of each job by its id, or None if the scheduler does not answer."""
        names = {self.run_uuid, *(info.aux["name"] for info in active_jobs if "name" in (info.aux or {}))}
        try:
            queue = await asyncio.to_thread(slurm.queue, names=sorted(names))
        except BloomeryError as error:
            if self._away_since is None:
                self._away_since = time.monotonic()
                self.logger.warning(f"the scheduler does not answer; the jobs stay as they are ({error})")
            return None
        if self._away_since is not None:
            self.logger.warning(f"the scheduler answers again after {time.monotonic() - self._away_since:.0f} s")
            self._away_since = None
        return {job.job: job.state for job in queue}

    async def _report_end(self, info: SubmittedJobInfo, result: Outcome, state: str | None) -> None:
        """Report the end of a job to Snakemake. Raises OSError if the end cannot be judged now."""
        number = segment_number(info.job)
        job = f"SLURM job {info.external_jobid}"
        if number is not None:
            error = await asyncio.to_thread(settle, info.job, info.external_jobid, state)
        elif result is Outcome.FORGOTTEN:
            missing = await asyncio.to_thread(self._missing_outputs, info.job)
            error = f"{job} is no longer in the queue, and its output {missing[0]} is missing" if missing else None
        else:
            error = None if result is Outcome.SUCCEEDED else f"{job} ended with the state {state}"
        self._unfinished.pop(info.external_jobid, None)
        if error is None:
            self.report_job_success(info)
        else:
            if number is not None or state != "FAILED":
                # The log file of a job that failed by itself has a better message.
                self.logger.error(f"error: {info.job.name}: {error}")
            log = (info.aux or {}).get("slurm_logfile")
            self.report_job_error(info, msg=f"{error}. ", aux_logs=[str(log)] if log else [])

    def _missing_outputs(self, job: Any) -> list[str]:
        """Return the job's outputs that do not appear within the workflow's latency-wait."""
        deadline = time.monotonic() + self.workflow.execution_settings.latency_wait
        while missing := [str(path) for path in job.output if not Path(path).exists()]:
            if time.monotonic() > deadline or self._stopping.wait(1.0):
                break
        return missing

    def _set_pause(self, ended: int) -> None:
        """Set the pause before the next look: the shortest after a job has ended, otherwise 10 s more than before."""
        settings = self.workflow.executor_settings
        shortest = float(settings.init_seconds_before_status_checks)
        longer = shortest if ended else self._pause_seconds + 10
        self._pause_seconds = min(longer, max(settings.longest_poll_seconds, _SLICE_SECONDS))

    async def sleep(self) -> None:
        """Wait until the next look at the states. A Ctrl-C ends the wait early."""
        until = time.monotonic() + self._pause_seconds
        while time.monotonic() < until and not self._stopping.is_set():
            await asyncio.sleep(_SLICE_SECONDS)

    # Ctrl-C

    def cancel(self) -> None:
        """Cancel all jobs that have not ended, also those that a poll is looking at, and end."""
        self._stopping.set()
        self.cancel_jobs(list(self._unfinished.values()))
        self.shutdown()

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel jobs. Repeat while the scheduler is away."""
        jobs = [info.external_jobid for info in active_jobs if info.external_jobid is not None]
        if not jobs:
            return
        deadline = time.monotonic() + _CANCEL_SECONDS
        for pause in pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS):
            try:
                slurm.call("scancel", *jobs)
                return
            except BloomeryError as error:
                if not is_temporary(str(error)) or time.monotonic() > deadline:
                    self.logger.error(f"cannot cancel the jobs {' '.join(jobs)}: {error}")
                    return
                self.logger.warning("cannot cancel the jobs, because the scheduler does not answer; trying again")
            time.sleep(pause)

    def shutdown(self) -> None:
        """End the submissions and the polling."""
        self._stopping.set()
        super().shutdown()


def _comment(job: Any) -> str:
    """Return the comment that the original plugin gives to the job of a rule or a group."""
    wildcards = get_job_wildcards(job)
    return f"rule_{job.name}" + (f"_wildcards_{wildcards}" if wildcards else "")
