"""Define train/heartbeat/<rank>.json, in which each rank of a running training records its progress.

A thread of each rank writes the file every few seconds, and the launcher of the segment reads all files to notice a
hang. A file is overwritten in place, because a rename would cost two more operations of the file system. A checksum
lets a reader recognise a file that was read while it was written.

The files cost little on a parallel file system. For any number of ranks, at most about 64 files are written per second
(`beat_seconds`), so each of 384 ranks writes every 6 s. With 4 KiB per file, this is 256 KiB per second.
"""

from __future__ import annotations

import json
import os
import zlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bloomery.base.json_text import parse_json
from bloomery.config.section import Count

LAUNCH_VARIABLE = "BLOOMERY_LAUNCH"
"""Name of the environment variable with the id of the launch. Each start of a segment's processes has a new id.

So a file of an earlier launch, which the cache of a network file system may still contain, has no effect.
"""
_WRITES_PER_SECOND = 64
_BLOCK_BYTES = 4096


class Place(StrEnum):
    """Kind of work that a rank is doing."""

    STARTING = "starting"
    LOADING = "loading"
    ITERATION = "iteration"
    VALIDATION = "validation"
    REPLAY = "replay"
    SAVING = "saving"
    ENDING = "ending"
    ENDED = "ended"
    """The rank has ended its work, so no further progress is expected."""


class Route(StrEnum):
    """Kind of communication."""

    GROUP = "group"
    """A collective, to which all ranks of a group contribute."""
    SEND = "send"
    RECEIVE = "receive"


class Channel(BaseModel):
    """Communication of a rank with a group of ranks, or with one other rank."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    route: Route
    ranks: tuple[Count, ...]
    """Ranks of the group in ascending order. For a point-to-point operation: the sender and the receiver."""
    calls: Count
    """Number of operations that the rank has begun on this channel."""


class Heartbeat(BaseModel):
    """State of one rank at the time of the record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Count
    host: str
    pid: Count
    launch: str
    """Id of the launch (see `LAUNCH_VARIABLE`)."""
    segment: Count
    iteration: Count
    """Iteration that the rank runs, or the last one that it ran. 0 before the first iteration."""
    place: Place
    beat: Count
    """Number of earlier records of this process. If it does not grow, the process is stopped or its node is dead."""
    progress: Count
    """Count that grows with each instruction of the pipeline, each communication and each change of `place`."""
    idle_seconds: Annotated[float, Field(ge=0)]
    """Seconds since `progress` last grew, measured by the rank."""
    allowed_seconds: Annotated[float, Field(gt=0)]
    """Number of seconds without progress after which the training counts as hung at this place."""
    time: str
    """Time of the record on the rank's host: UTC, ISO 8601."""
    call: Channel | None = None
    """Communication in which the rank is at the moment. None if it is in none, or if the calls return at once, as with
    NCCL."""
    channels: tuple[Channel, ...] = ()


def beat_seconds(ranks: int) -> float:
    """Return the number of seconds between two records of a rank in a training of `ranks` ranks."""
    return max(1.0, ranks / _WRITES_PER_SECOND)


def stacks_request(folder: Path, launch: str) -> Path:
    """Return the file in the folder of heartbeats that asks each rank of a launch for its stacks.

    The file contains the path of the folder for the stacks.
    """
    return folder / f"write-stacks-{launch}"


def end_request(folder: Path, launch: str) -> Path:
    """Return the file in the folder of heartbeats that asks each node to kill the ranks of a launch."""
    return folder / f"end-ranks-{launch}"


def heartbeat_path(folder: Path, rank: int) -> Path:
    """Return the file of a rank in the folder of heartbeats."""
    return folder / f"{rank}.json"


def write_heartbeat(folder: Path, beat: Heartbeat) -> None:
    """Write the record of a rank.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps(beat.model_dump(mode="json"), separators=(",", ":")).encode()
    content = b"%08x " % zlib.crc32(text) + text
    # A file of a fixed size needs no truncation, so a reader never sees an empty file.
    content = content.ljust(-(-(len(content) + 1) // _BLOCK_BYTES) * _BLOCK_BYTES - 1) + b"\n"
    descriptor = os.open(heartbeat_path(folder, beat.rank), os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, content, 0)
    finally:
        # NFS sends the content to the server when the file is closed. Other clients see it when they open the file.
        os.close(descriptor)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the record in `path`. Return None if the file is missing, is being written or is damaged."""
    try:
        # Blocks of an earlier, longer record may follow the first line.
        checksum, _, text = path.read_bytes().partition(b"\n")[0].partition(b" ")
        text = text.rstrip()
        if int(checksum, 16) != zlib.crc32(text):
            return None
        return Heartbeat.model_validate(parse_json(text))
    except (OSError, ValueError, ValidationError):
        return None


def read_heartbeats(folder: Path) -> dict[int, Heartbeat]:
    """Return the readable records in the folder of heartbeats by rank, in ascending order."""
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".json" and path.stem.isdecimal()]
    except OSError:
        return {}
    found = {int(path.stem): beat for path in paths if (beat := read_heartbeat(path)) is not None}
    return {rank: found[rank] for rank in sorted(found) if found[rank].rank == rank}
