"""Make and read the records of a segment's endings, and judge whether the training may continue after a crash."""

from __future__ import annotations

from typing import Any

from bloomery.base.errors import CheckFailedError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault, FirstFailure, Segment, SegmentStatus, read_segment, write_segment
from bloomery.contracts.segment_start import SegmentStart
from training.resume.resolve_resume import ResumePoint


def read_history(paths: RunPaths, number: int) -> list[Segment]:
    """Return the recorded endings of segment `number`, oldest first."""
    found: list[Segment] = []
    while (path := paths.segments / "history" / f"{number}-{len(found) + 1}.json").exists():
        found.append(read_segment(path))
    return found


def last_attempt(paths: RunPaths, number: int) -> Segment | None:
    """Return the last recorded ending of segment `number`, or of segment `number - 1` if `number` has not ended yet."""
    earlier = read_history(paths, number) or (read_history(paths, number - 1) if number > 1 else [])
    return earlier[-1] if earlier else None


def record(paths: RunPaths, segment: Segment) -> None:
    """Add an ending to the history of the segment."""
    write_segment(
        paths.segments / "history" / f"{segment.number}-{len(read_history(paths, segment.number)) + 1}.json", segment
    )


def ending(
    resume: ResumePoint,
    paths: RunPaths,
    start: SegmentStart,
    status: SegmentStatus,
    message: str,
    *,
    fault: Fault | None = None,
    first_failure: FirstFailure | None = None,
) -> Segment:
    """Return the record of a segment whose processes reported no segment, at the position of the newest checkpoint.

    Args:
        resume: configuration of the segment.
        paths: paths of the run.
        start: start of the segment's launcher.
        status: how the segment ended.
        message: what happened.
        fault: kind of the fault, for a crashed segment.
        first_failure: the rank that failed first, if it is known.
    """
    left = resume.after_segment(paths)
    new_checkpoint = saved_more(left, start)
    return Segment(
        number=start.number,
        status=status,
        first_iteration=0,
        iteration=left.position.iteration,
        total_iterations=left.total_iterations,
        consumed_samples=left.position.consumed_samples,
        consumed_tokens=left.position.consumed_tokens,
        checkpoint=left.checkpoint_name,
        identity=left.identity,
        new_checkpoint=new_checkpoint,
        crashes=crashes_before(paths, start.number, new_checkpoint) + (status is SegmentStatus.CRASHED),
        message=message,
        fault=fault,
        first_failure=first_failure,
        **place_and_time(start),
    )


def saved_more(left: ResumePoint, start: SegmentStart) -> bool:
    """Return whether a segment saved a newer checkpoint than the one from which it resumed.

    A new checkpoint resets the number of crashes, even if the segment crashed after it saved the checkpoint. So nodes
    that fail from time to time never end a training that progresses.

    Args:
        left: resume point that the segment left behind.
        start: start of the segment's launcher.
    """
    return start.iteration is not None and left.position.iteration > start.iteration


def place_and_time(start: SegmentStart) -> dict[str, Any]:
    """Return the job, the nodes and the times of a segment that ends now, as fields of `Segment`."""
    return {"job": start.job, "nodes": start.nodes, "started": start.started, "ended": utc_now()}


def crashes_before(paths: RunPaths, number: int, new_checkpoint: bool) -> int:
    """Return the number of crashes since the last new checkpoint, without the attempt that ends now.

    Args:
        paths: paths of the run.
        number: number of the segment that ends now.
        new_checkpoint: whether this attempt saved a new checkpoint.
    """
    if new_checkpoint:
        return 0
    if (attempts := read_history(paths, number)) or number == 1:
        return attempts[-1].crashes if attempts else 0
    path = paths.segments / f"{number - 1}.json"
    return read_segment(path).crashes if path.exists() else 0


def judge_crash(paths: RunPaths, segment: Segment, most: int) -> None:
    """Report a crash.

    Raises:
        CheckFailedError: more than `most` segments crashed since the last new checkpoint.
    """
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
