"""The launcher that a Snakemake rule starts. It holds the lease, runs one segment's processes and records the result.

On SIGTERM or SIGINT the launcher writes the stop file. The ranks read the stop file at the next control poll, save a
checkpoint and end cleanly. If the launcher is killed with SIGKILL, torchrun and the ranks are killed too
(`training.loop.die_with_parent`). In a SLURM job the scheduler ends them with the job.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError, TryAgainError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.checks.check_training import refuse_contradictions
from bloomery.config.stages import TrainStage
from bloomery.contracts.hold_index import release_index
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, clear_request, read_segment, write_segment
from bloomery.contracts.segment_start import SegmentStart, read_start, write_start
from bloomery.contracts.train_stage import read_configured
from bloomery.spec.refuse_unsupported import refuse_untrainable
from training.checkpoint.next_checkpoint import next_checkpoint_bytes
from training.loop.hold_lease import lease
from training.nodes.node_group import NodeGroup
from training.processes.run_processes import BY_SIGNAL, run_processes
from training.processes.start_command import (
    Allocation,
    end_of_job,
    process_environment,
    rank_arguments,
    result_path,
    start_command,
)
from training.processes.watch_ranks import RankWatch
from training.resume.check_folders import check_folders
from training.resume.count_starts import count_start, forget_starts
from training.resume.record_launch import record_launch
from training.resume.resolve_resume import ResumePoint, resolve_resume
from training.segments.job_end import restart_count
from training.segments.next_segment import NextJob, NextSegment
from training.segments.segment_outcome import outcome
from training.segments.segment_record import judge_crash, last_attempt, read_history, record
from training.segments.settle_segment import settle
from training.segments.wait_for_space import RECORD_BYTES, wait_for_space


def launch_segment(
    config: Path,
    run: Path,
    number: int,
    output: Path,
    allocation: Allocation | None = None,
    following: NextSegment | None = None,
    nodes: NodeGroup | None = None,
) -> Segment | None:
    """Run segment `number` of the training in `run` and write the result to `output`.

    Args:
        config: configuration of the training stage (config/train.json).
        run: folder of the run.
        number: number of the segment, from 1.
        output: file to write the segment to.
        allocation: nodes of the surrounding SLURM job. None runs every process on this machine.
        following: how to submit the SLURM job of the next segment. None submits no job.
        nodes: the other machines of a training without a scheduler. None if there are no other machines.

    Returns:
        The segment, if the next segment can start or the training has finished. The segment's status is finished, time
        limit or rolled back, or crashed if there were at most `max_crashes` crashes since the last new checkpoint.
        None if an earlier segment has finished the training.

    Raises:
        TryAgainError: the segment was stopped on request. The same command resumes from the checkpoint.
        CheckFailedError: there were more than `max_crashes` crashes since the last new checkpoint, too many starts
            saved no new checkpoint, or a changed key prevents a resume.
        BloomeryError: a rank failed with an error that a retry cannot fix. The exit code is that of the rank's error.
        ConfigError, InputError: the configuration or the index is wrong, or a folder has the name of a needed file.
    """
    paths = RunPaths(run)
    configured = read_configured(config, paths)
    refuse_contradictions(configured.model, configured.training, where=str(config))
    refuse_untrainable(configured.model)
    # Without space, not even the lease and the record of this start could be written.
    wait_for_space(paths, RECORD_BYTES)
    with lease(paths.train):
        start = _start(number)
        write_start(paths, start)
        try:
            if _training_has_finished(configured, paths, number):
                say(f"segment {number} is not needed, because the training has finished")
                return None
            segment, error = _run(_Launch(config, paths, start, allocation, following, nodes), configured)
        except BloomeryError as problem:
            write_start(paths, start.model_copy(update={"error": str(problem), "exit_code": problem.exit_code}))
            raise
        if error is not None:
            raise error
        write_segment(output, segment)
        return segment


@dataclass(frozen=True)
class _Launch:
    """What a launcher runs, and where."""

    config: Path
    paths: RunPaths
    start: SegmentStart
    allocation: Allocation | None
    following: NextSegment | None
    nodes: NodeGroup | None


def _start(number: int) -> SegmentStart:
    """Return the record of this launcher's start."""
    job, restarts = slurm.own_job(), 0
    nodes: tuple[str, ...] = (socket.gethostname(),)
    if job is not None:
        try:
            nodes = slurm.node_names(job)
            restarts = restart_count(job)
        except BloomeryError as error:
            say(f"cannot ask the scheduler for the nodes of job {job}: {error}")
    return SegmentStart(
        number=number,
        job=job,
        restarts=restarts,
        host=socket.gethostname(),
        pid=os.getpid(),
        nodes=nodes,
        started=utc_now(),
    )


def _training_has_finished(configured: TrainStage, paths: RunPaths, number: int) -> bool:
    """Return whether an earlier segment has finished the training. Record the end of the previous segment if needed.

    The job of this segment can start before the workflow has recorded the end of the previous one.

    Raises:
        TryAgainError, BloomeryError: the previous segment was stopped or failed, so the chain has ended.
    """
    if number == 1:
        return False
    previous = paths.segments / f"{number - 1}.json"
    if not previous.exists() and (before := read_start(paths, number - 1)) is not None and before.job is not None:
        settle(configured, paths, number - 1, previous, before.job, slurm.final_state(before.job))
    return previous.exists() and read_segment(previous).status is SegmentStatus.FINISHED


def _run(launch: _Launch, configured: TrainStage) -> tuple[Segment, BloomeryError | None]:
    """Run the processes of a segment. Return the segment, and the error that ends the chain of segments, if any."""
    paths, number = launch.paths, launch.start.number
    check_folders(paths)
    resume = resolve_resume(configured, paths)
    limits = resume.stage.training.segment
    before = read_history(paths, number)
    if before and _still_valid(before[-1], resume):
        # A workflow was killed while its job continued, and that job completed this segment.
        ended = f"status {before[-1].status.value!r} at iteration {before[-1].iteration}"
        say(f"segment {number} has already ended with {ended}, so it is not run again")
        return before[-1], None
    _heed_stop(paths)
    wait_for_space(paths, max(RECORD_BYTES, next_checkpoint_bytes(resume.stage, paths) or 0))
    if launch.nodes is not None:
        launch.nodes.wait_for_nodes()
    iteration = None if resume.checkpoint is None else resume.checkpoint.iteration
    count_start(paths, iteration, limits.max_restarts_without_progress, last_attempt(paths, number))
    start = launch.start.model_copy(update={"iteration": iteration or 0})
    write_start(paths, start)
    record_launch(paths, number, start.started)
    following = _following(launch, limits.max_segments)
    try:
        segment, error = _run_processes(launch, start, resume)
        wait_for_space(paths, RECORD_BYTES)
        record(paths, segment)
        if segment.status is SegmentStatus.FINISHED:
            forget_starts(paths)
            release_index(paths)
        if segment.status in (SegmentStatus.STOPPED, SegmentStatus.FINISHED):
            # The stop request is fulfilled. After any other ending, it stays and applies to the next segment.
            clear_request(paths.control / STOP_FILE)
        error = error or _end_of_chain(paths, segment, limits.max_crashes)
    except BaseException:
        if following is not None:
            following.cancel()
        raise
    if following is not None:
        if error is not None or segment.status is SegmentStatus.FINISHED:
            following.cancel()
        else:
            following.leave()
    return segment, error


def _following(launch: _Launch, max_segments: int) -> NextJob | None:
    """Start to submit the job of the next segment, if this segment runs in a job and may have a successor."""
    if launch.following is None or launch.start.job is None or launch.start.number >= max_segments:
        return None
    job = NextJob(launch.following, launch.start.job, launch.paths)
    job.start()
    return job


def _run_processes(launch: _Launch, start: SegmentStart, resume: ResumePoint) -> tuple[Segment, BloomeryError | None]:
    """Run the processes to their end. Return the segment, and the error of a rank that a retry cannot fix, if any."""
    paths, nodes = launch.paths, launch.nodes
    result = result_path(paths, start.number)
    result.unlink(missing_ok=True)
    command = _segment_command(resume.stage, launch.config, paths, start.number, launch.allocation, nodes)
    watch = RankWatch(paths, resume.stage.training, start.number)
    environment = {**process_environment(resume.stage.training), **watch.environment}
    if nodes is None:
        return outcome(resume, paths, start, result, run_processes(command, environment, paths, watch))
    with nodes.segment(start.number, watch.environment):
        end = run_processes(command, environment | nodes.environment(), paths, watch, nodes.failure)
    segment, error = outcome(resume, paths, start, result, end)
    return nodes.describe(segment), error


def _end_of_chain(paths: RunPaths, segment: Segment, max_crashes: int) -> BloomeryError | None:
    """Return the error that ends the chain of segments after this segment. None if the chain continues."""
    if segment.status is SegmentStatus.STOPPED:
        return TryAgainError(
            f"stopped after iteration {segment.iteration} of {segment.total_iterations}; "
            f"checkpoint {segment.checkpoint} is saved",
            where=str(paths.train),
            expected="run the same command again to resume",
        )
    if segment.status is SegmentStatus.CRASHED:
        try:
            judge_crash(paths, segment, max_crashes)
        except CheckFailedError as error:
            return error
    return None


def _heed_stop(paths: RunPaths) -> None:
    """Remove the stop file. Raises TryAgainError if a person created it before this segment began."""
    stop = paths.control / STOP_FILE
    paths.control.mkdir(parents=True, exist_ok=True)
    asked = stop.exists() and stop.read_bytes() != BY_SIGNAL.encode()
    # A launcher that is killed while it stops (as in a requeued job) leaves its own stop file, which is not a request.
    stop.unlink(missing_ok=True)
    if asked:
        raise TryAgainError(
            "the training was asked to stop before the segment began",
            where=str(stop),
            expected="run the same command again to start the segment; the stop file has been removed",
        )


def _still_valid(segment: Segment, resume: ResumePoint) -> bool:
    """Whether `segment` ended well, belongs to this training, and is not followed by further training."""
    return (
        segment.status in (SegmentStatus.FINISHED, SegmentStatus.TIME_LIMIT)
        and segment.checkpoint == resume.checkpoint_name
        and segment.identity == resume.identity
        and resume.continues
        and segment.total_iterations == resume.total_iterations
    )


def _segment_command(
    stage: TrainStage,
    config: Path,
    paths: RunPaths,
    number: int,
    allocation: Allocation | None,
    nodes: NodeGroup | None,
) -> list[str]:
    """Return the command that starts the processes of segment `number`."""
    arguments = rank_arguments(config, paths.run, number)
    if nodes is not None:
        return nodes.place.torchrun(nodes.port, arguments)
    if (end := end_of_job()) is not None:
        arguments += ["--end", f"{end:.0f}"]
    if allocation is not None and stage.training.parallel.world_size % allocation.nodes == 0:
        # The job may have been submitted before the layout of the training changed.
        allocation = replace(allocation, ranks_per_node=stage.training.parallel.world_size // allocation.nodes)
    return start_command(stage.training, allocation, arguments)


def finish(run: Path, output: Path) -> Segment:
    """Copy the first finished segment of the chain to `output` (train/finished.json).

    Raises:
        InputError: no segment is finished.
    """
    paths = RunPaths(run)
    number = 1
    while (path := paths.segments / f"{number}.json").exists():
        segment = read_segment(path)
        if segment.status is SegmentStatus.FINISHED:
            write_segment(output, segment)
            # The job of the last segment may have been killed before it released the index.
            release_index(paths)
            return segment
        number += 1
    raise InputError(
        "no segment has the status 'finished'",
        where=str(paths.segments),
        expected="a training that has finished; run its remaining segments first",
    )
