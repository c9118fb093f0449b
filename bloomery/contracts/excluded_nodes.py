"""Define train/excluded_nodes.json: nodes on which no further segment of a run starts until their exclusion ends.

The preflight and `bloomery nodes` write the file. Every program that submits a segment to SLURM reads it. The file
contains SLURM's names of the nodes, because they become the value of sbatch's option --exclude.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError, TryAgainError
from bloomery.base.file_lock import file_lock
from bloomery.base.times import utc_text
from bloomery.config.explain_value import wrong_values
from bloomery.contracts.paths import RunPaths

_LOCK_SECONDS = 20.0

_NAME, _LONGEST_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$", 255
NodeName = Annotated[str, Field(pattern=_NAME, max_length=_LONGEST_NAME)]
"""SLURM's name of one node. It becomes part of a shell command."""


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time such as 2026-01-31T12:00:00Z") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time in UTC."""


class ExcludedNode(BaseModel):
    """A node that the next segments exclude."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: NodeName
    reason: str
    since: Moment
    until: Moment
    """Time at which the exclusion ends."""
    by: Literal["preflight", "person"]

    @field_serializer("since", "until", when_used="json")
    def _as_utc(self, moment: datetime) -> str:
        return utc_text(moment)


class ExcludedNodes(BaseModel):
    """All excluded nodes of a run, in the order of their exclusion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    nodes: tuple[ExcludedNode, ...] = ()


def read_excluded(paths: RunPaths, now: datetime) -> list[ExcludedNode]:
    """Return the nodes that are excluded at the time `now`. The list is empty if the file does not exist.

    Raises:
        InputError: the file is damaged.
    """
    if not paths.excluded_nodes.exists():
        return []
    try:
        read = ExcludedNodes.model_validate(read_json(paths.excluded_nodes))
    except ValidationError as error:
        raise InputError(
            f"not a list of excluded nodes: {wrong_values(error, ExcludedNodes)}",
            where=str(paths.excluded_nodes),
            expected="the file as the training or `bloomery nodes exclude` wrote it; correct or delete it",
        ) from error
    return [node for node in read.nodes if node.until > now]


def _lock(paths: RunPaths) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of the file, so that no process writes it between another one's reading and writing."""
    lock = paths.excluded_nodes.with_suffix(".lock")
    busy = TryAgainError(
        f"another process has held the lock for {_LOCK_SECONDS:.0f} s",
        where=str(lock),
        expected="no other command that changes the excluded nodes; run the command again",
    )
    return file_lock(lock, _LOCK_SECONDS, busy)


def _write(paths: RunPaths, nodes: Iterable[ExcludedNode]) -> None:
    """Write the file atomically."""
    write_json(paths.excluded_nodes, ExcludedNodes(nodes=tuple(nodes)).model_dump(mode="json"))


def check_node_name(host: str) -> None:
    """Raise InputError if `host` cannot be the name of a single node."""
    if len(host) > _LONGEST_NAME or not re.fullmatch(_NAME, host):
        raise InputError(
            "not the name of a node",
            where=repr(host),
            expected="the name of one node as `sinfo --Node` shows it, such as node07",
        )


def exclude_node(
    paths: RunPaths, host: str, reason: str, hours: float, by: Literal["preflight", "person"], now: datetime
) -> ExcludedNode:
    """Exclude a node for `hours` hours from `now` on. An exclusion of the same node is replaced. Return the exclusion.

    Raises:
        InputError: the name is not that of a single node, or the file is damaged.
        TryAgainError: another process holds the lock of the file for too long.
    """
    check_node_name(host)
    since = now.astimezone(UTC).replace(microsecond=0)
    added = ExcludedNode(host=host, reason=reason, since=since, until=since + timedelta(hours=hours), by=by)
    with _lock(paths):
        _write(paths, [*(node for node in read_excluded(paths, now) if node.host != host), added])
    return added


def include_node(paths: RunPaths, host: str, now: datetime) -> ExcludedNode | None:
    """End the exclusion of a node. Return the exclusion that was ended, or None if the node was not excluded.

    Raises:
        InputError: the file is damaged.
        TryAgainError: another process holds the lock of the file for too long.
    """
    with _lock(paths):
        before = read_excluded(paths, now)
        found = next((node for node in before if node.host == host), None)
        if found is not None:
            _write(paths, [node for node in before if node.host != host])
    return found


def most_excluded(configured: int | None, nodes: int) -> int:
    """Return the maximum number of nodes that preflights may exclude at one time.

    Args:
        configured: `training.preflight.max_excluded_nodes`.
        nodes: number of nodes of the training.
    """
    return max(1, nodes // 20) if configured is None else configured
