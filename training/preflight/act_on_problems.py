"""Decide what follows from the problems of a preflight: which nodes to exclude, and whether the segment ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bloomery.base.errors import BloomeryError, ResourceError
from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.excluded_nodes import exclude_node, most_excluded, read_excluded
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import Problem, ProblemKind
from bloomery.contracts.segment import FirstFailure
from training.preflight.preflight_error import PreflightError

_SHOWN = 8


@dataclass(frozen=True)
class Consequences:
    """Actions that follow from the problems of a preflight."""

    problems: tuple[Problem, ...]
    """All problems. `ends_segment` states whether a problem ends this segment."""
    excluded: tuple[str, ...]
    """Nodes that were excluded from the next segments."""
    notes: tuple[str, ...]
    """Sentences for the log."""

    @property
    def fatal(self) -> list[Problem]:
        """The problems that end the segment."""
        return [problem for problem in self.problems if problem.ends_segment]


def act_on_problems(
    problems: Sequence[Problem],
    paths: RunPaths,
    limits: PreflightConfig,
    nodes: int,
    now: datetime,
    *,
    in_job: bool,
) -> Consequences:
    """Exclude nodes from the next segments, and decide which problems end this segment.

    A problem that does not prevent the training, such as a slow node, ends the segment only if its node was excluded.
    Otherwise the next segment could run on the same node and would end in the same way.

    Args:
        problems: what the preflight found.
        paths: paths of the run.
        limits: for how long to exclude a node, and how many nodes.
        nodes: number of nodes of the training.
        now: current time.
        in_job: whether the next segment can run on other nodes, as in a SLURM job.

    Raises:
        InputError: the list of excluded nodes is damaged.
    """
    notes, excluded = [], set[str]()
    candidates: dict[str, list[str]] = {}
    # The nodes that prevent the training come first, because the number of excluded nodes is limited.
    for problem in sorted(problems, key=lambda each: not each.ends_segment):
        if problem.exclude and problem.host is not None:
            candidates.setdefault(problem.host, []).append(problem.message)
    most = most_excluded(limits.max_excluded_nodes, nodes)
    if in_job and candidates:
        earlier = [node for node in read_excluded(paths, now) if node.by == "preflight"]
        free = most - len(earlier)
        excluded = set(list(candidates)[: max(free, 0)])
        for host in candidates:
            if host in excluded:
                added = exclude_node(paths, host, "; ".join(candidates[host]), limits.exclude_hours, "preflight", now)
                notes.append(
                    f"preflight: the next segments exclude {host} until {added.model_dump(mode='json')['until']}"
                )
            else:
                notes.append(
                    f"preflight: {host} is not excluded, because preflights exclude at most {most} "
                    f"node{'s' * (most != 1)} at one time (training.preflight.max_excluded_nodes)"
                )
    judged = tuple(
        problem.model_copy(
            update={"ends_segment": problem.ends_segment or (problem.host in excluded and problem.exclude)}
        )
        for problem in problems
    )
    return Consequences(judged, tuple(sorted(excluded)), tuple(notes))


def error_of(consequences: Consequences, record: Path) -> BloomeryError | None:
    """Return the error that ends the segment, or None if the training can start.

    Args:
        consequences: what follows from the problems.
        record: file of the preflight, for the message.
    """
    fatal = consequences.fatal
    if not fatal:
        return None
    shown = "; ".join(described(problem) for problem in fatal[:_SHOWN])
    more = f"; and {len(fatal) - _SHOWN} more problems" if len(fatal) > _SHOWN else ""
    what = f"the preflight failed: {shown}{more}"
    if all(problem.kind is ProblemKind.MISSING_GPU and not problem.exclude for problem in fatal):
        others = f" (all {len(fatal)} nodes lack GPUs)" if len(fatal) > 1 else ""
        return ResourceError(fatal[0].message + others, where=fatal[0].host, expected=fatal[0].expected or None)
    if consequences.excluded:
        expected = f"other nodes than {', '.join(consequences.excluded)}, which the next segments exclude"
    elif all(problem.kind is ProblemKind.RUN_DISK for problem in fatal):
        expected = "free space on the disk of the run; the next segment checks it again"
    else:
        expected = "nodes that pass all checks; `bloomery nodes exclude` excludes a node from the next segments"
    named = next((problem for problem in fatal if problem.host is not None and problem.rank is not None), None)
    failure = None
    if named is not None and named.host is not None and named.rank is not None:
        failure = FirstFailure(rank=named.rank, host=named.host, ending=f"failed the preflight: {named.message}")
    return PreflightError(what, where=str(record), expected=expected, first_failure=failure)


def described(problem: Problem) -> str:
    """Return the problem with the name of its node."""
    return problem.message if problem.host is None else f"{problem.host}: {problem.message}"
