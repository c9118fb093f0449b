"""Submit the SLURM job of the next segment while this segment still trains, so that the next one waits in the queue.

The job depends on the end of this segment's job. The workflow later adopts it as the job of its rule
(`snakemake_executor_plugin_bloomery_slurm`), because it has the name and the comment that the workflow would give it.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.backoff import pauses
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.config.site import load_site
from bloomery.contracts.next_job import read_options
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.exclude_option import exclude_option
from bloomery.orchestration.settle_training import live_job_of_segment, training_comment
from bloomery.orchestration.slurm_jobs import shell_prefix
from bloomery.orchestration.submission import is_temporary
from bloomery.orchestration.training_job import launch_options
from training.processes.start_command import Allocation

_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 120.0


@dataclass(frozen=True)
class NextSegment:
    """How to submit the job of the next segment."""

    number: int
    """Number of the next segment."""
    options: tuple[str, ...]
    """Options of sbatch, unless a newer workflow has written others (`bloomery.contracts.next_job`)."""
    command: tuple[str, ...]
    """Command of the launcher of the next segment."""


class NextJob:
    """The job of the next segment, which a thread submits while this segment trains."""

    def __init__(self, segment: NextSegment, job: str, paths: RunPaths) -> None:
        """Prepare the submission. `job` is the id of this segment's job."""
        self._segment, self._job, self._paths = segment, job, paths
        self._excluded: str | None = None
        """Option of sbatch for the nodes that the submitted job excludes."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._submit, name="next-segment", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def leave(self) -> None:
        """End the attempts to submit the job. A job in the queue stays there, and excludes the nodes that failed."""
        self._end()
        excluded = self._exclude_option()
        if excluded is None or excluded == self._excluded:
            return
        try:
            if (job := self._queued()) is not None:
                slurm.call("scontrol", "update", f"jobid={job.job}", f"excnodelist={excluded.partition('=')[2]}")
                say(f"SLURM job {job.job} of the next segment excludes the nodes {excluded.partition('=')[2]}")
        except BloomeryError as error:
            say(f"the job of the next segment may use an excluded node: {error}")

    def _end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _exclude_option(self) -> str | None:
        return exclude_option(self._paths, datetime.now(UTC))

    def cancel(self) -> None:
        """Cancel the job, because the chain of segments has ended."""
        self._end()
        try:
            if (job := self._queued()) is not None:
                slurm.call("scancel", job.job)
                say(f"cancelled SLURM job {job.job}, which waited to train segment {self._segment.number}")
        except BloomeryError as error:
            # The job will find that the training has ended, and will end at once.
            say(f"cannot cancel the job of segment {self._segment.number}: {error}")

    def _queued(self) -> slurm.QueuedJob | None:
        return live_job_of_segment([self._own_job["JobName"]], self._segment.number)

    @cached_property
    def _own_job(self) -> Mapping[str, str]:
        """Description of this segment's job. It does not change while the job runs."""
        return slurm.show_job(self._job)

    def _submit(self) -> None:
        """Submit the job. Repeat while the scheduler is away."""
        for pause in pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS):
            if self._ended.is_set():
                return
            try:
                if self._queued() is None:
                    say(f"SLURM job {self._sbatch()} waits to train segment {self._segment.number}")
                return
            except BloomeryError as error:
                if not is_temporary(str(error)):
                    say(f"the job of the next segment was not submitted, so the workflow will submit it: {error}")
                    return
            self._ended.wait(pause)

    def _sbatch(self) -> str:
        """Submit the job and return its id.

        Raises:
            TryAgainError: sbatch failed.
        """
        self._excluded = self._exclude_option()
        log = Path(self._own_job["StdOut"]).parent.with_name(str(self._segment.number)) / "%j.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        script = (
            "#!/bin/bash\n"
            f"{shell_prefix(load_site())}\n"
            # As in the rule: the launcher handles TERM, and the shell must not end before it.
            "trap '' TERM\n"
            f"{shlex.join(self._segment.command)}\n"
        )
        command = [
            *("sbatch", "--parsable", "--export=ALL", f"--dependency=afterany:{self._job}"),
            *(f"--job-name={self._own_job['JobName']}", f"--comment={training_comment(self._segment.number)}"),
            *(f"--output={log}", f"--chdir={Path.cwd()}"),
            *(read_options(self._paths) or self._segment.options),
            *((self._excluded,) if self._excluded is not None else ()),
        ]
        # Variables that describe this job must not describe the next one.
        environment = {key: value for key, value in os.environ.items() if not _of_this_job(key)}
        return slurm.call(*command, script=script, environment=environment).strip().split(";")[0]


def _of_this_job(variable: str) -> bool:
    return variable.startswith(("SLURM_", "SLURMD_")) and variable != "SLURM_CONF"


def next_segment(
    config: Path,
    run: Path,
    number: int,
    output: Path,
    allocation: Allocation | None,
    log: Path | None,
    options: Sequence[str],
) -> NextSegment:
    """Return how to submit the segment after segment `number`. The next launcher gets the same options as this one.

    Args:
        config: configuration of the training stage.
        run: folder of the run.
        number: number of this segment.
        output: file of this segment.
        allocation: nodes of a job, and the processes and CPUs on each node.
        log: log file of this segment.
        options: options of sbatch.
    """
    following = number + 1
    arguments = ["--config", str(config), "--run", str(run), "--number", str(following)]
    arguments += ["--output", str(output.with_name(f"{following}.json"))]
    if allocation is not None:
        arguments += launch_options(allocation.nodes, allocation.ranks_per_node, allocation.cpus_per_node)
    if log is not None:
        arguments += ["--log", str(log.with_name(f"{following}.log"))]
    arguments += [f"--next-job={option}" for option in options]
    program = (sys.executable, "-m", "bloomery.cli", "train", "segment")
    return NextSegment(following, tuple(options), (*program, *arguments))
