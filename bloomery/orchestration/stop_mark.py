"""Record and find out whether a person stopped a run, with `bloomery stop` or by stopping its training."""

from __future__ import annotations

import getpass
import socket

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.base.times import utc_now
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment

_NAME = "stopped.json"


def mark_stopped(paths: RunPaths) -> None:
    """Record that a person asked the run to stop."""
    paths.monitoring.mkdir(parents=True, exist_ok=True)
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    write_json(paths.monitoring / _NAME, {"time": utc_now(), "by": who})


def forget_stop(paths: RunPaths) -> None:
    """Remove the record of `mark_stopped`, because a person resumes the run."""
    (paths.monitoring / _NAME).unlink(missing_ok=True)


def is_marked_stopped(paths: RunPaths) -> bool:
    """Return whether a person asked the run to stop and has not resumed it since."""
    return (paths.monitoring / _NAME).exists()


def was_stopped_since(paths: RunPaths, time: str) -> bool:
    """Return whether a person has stopped the run, or its training, since `time` (UTC, ISO 8601)."""
    try:
        if read_json(paths.monitoring / _NAME)["time"] >= time:
            return True
    except (InputError, KeyError, TypeError):
        pass
    for path in (paths.segments / "history").glob("*.json"):
        try:
            segment = read_segment(path)
        except InputError:
            continue
        if segment.status is SegmentStatus.STOPPED and segment.ended is not None and segment.ended >= time:
            return True
    return False
