"""The launcher that a Snakemake rule starts. It holds the lease, runs one segment's processes and records the result.

On SIGTERM or SIGINT the launcher writes the stop file. The ranks read the stop file at the next control poll, save a
checkpoint and end cleanly. If the launcher is killed with SIGKILL, torchrun and the ranks are killed too
(`training.loop.die_with_parent`). In a SLURM job the scheduler ends them with the job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError, TryAgainError
from bloomery.base.progress import say
from bloomery.checks.check_training import refuse_contradictions
from bloomery.config.stages import TrainStage
from bloomery.contracts.hold_index import release_index
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, clear_request, read_segment, write_segment
from bloomery.contracts.train_stage import read_configured
from bloomery.spec.refuse_unsupported import refuse_untrainable
from training.loop.hold_lease import lease
from training.nodes.node_group import NodeGroup
from training.resume.check_folders import check_folders
from training.resume.count_starts import count_start, forget_starts
from training.resume.resolve_resume import ResumePoint, resolve_resume
from training.run_processes import BY_SIGNAL, run_processes
from training.start_command import (
    Allocation,
    end_of_job,
    process_environment,
    rank_arguments,
    result_path,
    start_command,
)


def launch_segment(
    config: Path,
    run: Path,
    number: int,
    output: Path,
    allocation: Allocation | None = None,
    nodes: NodeGroup | None = None,
) -> Segment:
    """Run segment `number` of the training in `run` and write the result to `output`.

    Args:
        config: configuration of the training stage (config/train.json).
        run: folder of the run.
        number: number of the segment, from 1.
        output: file to write the segment to.
        allocation: nodes of the surrounding SLURM job. None runs every process on this machine.
        nodes: the other machines of a training without a scheduler. None if there are no other machines.

    Returns:
        The segment, if the next segment can start or the training has finished. The segment's status is finished, time
        limit or rolled back, or crashed if there were at most `max_crashes` crashes since the last new checkpoint.

    Raises:
        TryAgainError: the segment was stopped on request. The same command resumes from the checkpoint.
        CheckFailedError: there were more than `max_crashes` crashes since the last new checkpoint, too many starts
            saved no new checkpoint, or a changed key prevents a resume.
        BloomeryError: a rank failed with an error that a retry cannot fix. The exit code is that of the rank's error.
        ConfigError, InputError: the configuration or the index is wrong, or a folder has the name of a needed file.
    """
    paths = RunPaths(run)
    configured = read_configured(config, paths)
    refuse_contradictions(configured.training, where=str(config))
    refuse_untrainable(configured.model, configured.training)
    with lease(paths.train):
        check_folders(paths)
        resume = resolve_resume(configured, paths)
        limits = resume.stage.training.segment
        before = _history(paths, number)
        if before and _still_valid(before[-1], resume):
            # A workflow was killed while its job continued, and that job completed this segment.
            ended = f"status {before[-1].status.value!r} at iteration {before[-1].iteration}"
            say(f"segment {number} has already ended with {ended}, so it is not run again")
            write_segment(output, before[-1])
            return before[-1]
        _heed_stop(paths)
        if nodes is not None:
            nodes.wait_for_nodes()
        iteration = None if resume.checkpoint is None else resume.checkpoint.iteration
        count_start(paths, iteration, limits.max_restarts_without_progress, _last_attempt(paths, number))
        result = result_path(paths, number)
        result.unlink(missing_ok=True)
        command = _segment_command(resume.stage, config, paths, number, allocation, nodes)
        environment = process_environment(resume.stage.training)
        if nodes is None:
            code = run_processes(command, environment, paths)
        else:
            with nodes.segment(number):
                code = run_processes(command, environment | nodes.environment(), paths, nodes.failure)
        segment, error = _outcome(resume, paths, number, result, code)
        if nodes is not None:
            segment = nodes.describe(segment)
        write_segment(paths.segments / "history" / f"{number}-{len(before) + 1}.json", segment)
        if error is not None:
            raise error
        if segment.status is SegmentStatus.FINISHED:
            forget_starts(paths)
            release_index(paths)
        if segment.status in (SegmentStatus.STOPPED, SegmentStatus.FINISHED):
            # The stop request is fulfilled. After any other ending, it stays and applies to the next segment.
            clear_request(paths.control / STOP_FILE)
        if segment.status is SegmentStatus.STOPPED:
            raise TryAgainError(
                f"stopped after iteration {segment.iteration} of {segment.total_iterations}; "
                f"checkpoint {segment.checkpoint} is saved",
                where=str(paths.train),
                expected="run the same command again to resume",
            )
        if segment.status is SegmentStatus.CRASHED:
            _judge_crash(paths, segment, limits.max_crashes)
        write_segment(output, segment)
        return segment


def _judge_crash(paths: RunPaths, segment: Segment, most: int) -> None:
    """Report a crash, or raise CheckFailedError if more than `most` segments crashed since the last new checkpoint."""
    if segment.crashes > most:
        count = f"{segment.crashes} time{'s' * (segment.crashes > 1)}"
        raise CheckFailedError(
            f"the training crashed {count} since its last new checkpoint; the last crash: {segment.message}",
            where=str(paths.train),
            expected=f"at most {most} crashes without a new checkpoint (training.segment.max_crashes); fix the cause "
            f"(see {paths.logs / 'ranks'}), or set training.segment.max_crashes to a larger number, and run the same "
            "command again",
        )
    saved = f" after it saved checkpoint {segment.checkpoint}" if segment.new_checkpoint else ""
    say(
        f"segment {segment.number} crashed{saved}: {segment.message}; the next segment resumes the training (crashes "
        f"since the last new checkpoint: {segment.crashes} of at most {most})"
    )


def _history(paths: RunPaths, number: int) -> list[Segment]:
    """Return the recorded endings of segment `number`, oldest first."""
    found: list[Segment] = []
    while (path := paths.segments / "history" / f"{number}-{len(found) + 1}.json").exists():
        found.append(read_segment(path))
    return found


def _last_attempt(paths: RunPaths, number: int) -> Segment | None:
    """Return the last recorded ending of segment `number`, or of segment `number - 1` if `number` has not ended yet."""
    earlier = _history(paths, number) or (_history(paths, number - 1) if number > 1 else [])
    return earlier[-1] if earlier else None


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
    return start_command(stage.training, allocation, arguments)


def _outcome(
    resume: ResumePoint, paths: RunPaths, number: int, result: Path, code: int
) -> tuple[Segment, BloomeryError | None]:
    """Return the segment that the processes reported, and the error to raise (None if there is no error to raise).

    If the processes reported no segment, return a failed or crashed segment at the position of the newest checkpoint.
    A new checkpoint resets the number of crashes, even if the segment crashed after it saved the checkpoint. So nodes
    that fail from time to time never end a training that progresses. A checkpoint is new if its iteration is greater
    than that of the checkpoint from which the segment resumed.
    """
    answer: dict[str, Any] = read_json(result) if result.exists() else {}
    result.unlink(missing_ok=True)
    left = resume.after_segment(paths)
    new_checkpoint = left.position.iteration > resume.position.iteration
    crashes = 0 if new_checkpoint else _previous_crashes(paths, number)
    # torchrun exits with 1 when it is stopped, even if every rank saved and ended. So the ranks' result file decides.
    if "segment" in answer:
        found = Segment.model_validate(answer["segment"])
        return found.model_copy(update={"new_checkpoint": new_checkpoint, "crashes": crashes}), None
    error = None
    status = SegmentStatus.CRASHED
    message = f"the segment's processes ended with code {code}"
    if "error" in answer:
        message = str(answer["error"])
        # A temporary fault, such as an unreachable file server, counts as a crash. `max_crashes` limits the retries.
        if answer["exit_code"] != TryAgainError.exit_code:
            status, error = SegmentStatus.FAILED, BloomeryError(message)
            error.exit_code = answer["exit_code"]
    segment = Segment(
        number=number,
        status=status,
        first_iteration=0,
        iteration=left.position.iteration,
        total_iterations=left.total_iterations,
        consumed_samples=left.position.consumed_samples,
        consumed_tokens=left.position.consumed_tokens,
        checkpoint=left.checkpoint_name,
        identity=left.identity,
        new_checkpoint=new_checkpoint,
        crashes=crashes + (status is SegmentStatus.CRASHED),
        message=message,
    )
    return segment, error


def _previous_crashes(paths: RunPaths, number: int) -> int:
    """Return the number of crashes since the last new checkpoint that the previous attempt or segment recorded."""
    if (attempts := _history(paths, number)) or number == 1:
        return attempts[-1].crashes if attempts else 0
    path = paths.segments / f"{number - 1}.json"
    return read_segment(path).crashes if path.exists() else 0


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
