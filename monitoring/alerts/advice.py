"""Complete a finding for people: on which node it happened, what was done, and what to type."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from bloomery.contracts.segment import SegmentStatus
from bloomery.detect.finding import Finding, Kind
from monitoring.alerts.facts import RunFacts
from monitoring.status import RunState, training_jobs

TITLES = {
    Kind.SPIKE: "spike of the loss",
    Kind.DIVERGENCE: "the loss climbs",
    Kind.NON_FINITE: "loss or gradient is not finite",
    Kind.LOSS_SCALE: "the loss scale collapsed",
    Kind.VALIDATION: "the validation loss rises",
    Kind.STALL: "the training makes no progress",
    Kind.THROUGHPUT: "the training is slow",
    Kind.SLOW_RANK: "a rank is slow",
    Kind.CHECKPOINT: "a checkpoint is overdue",
    Kind.DISK: "the disk will be full",
    Kind.SYNC: "the logs are not synced",
    Kind.IDLE: "the run is neither running nor queued",
    Kind.QUEUE_AGE: "the training has waited long in the queue",
    Kind.SCHEDULER: "the scheduler does not answer",
    Kind.CRASH: "a segment crashed",
    Kind.CRASH_BUDGET: "the next crash ends the training",
    Kind.UNREADABLE: "the state of the run cannot be read",
}
"""Short title of each kind of condition."""

PAGE = "docs/how-to/alerts.md"
_ACTIONS = {
    "log": "The guard recorded the event; the training continues.",
    "skip": "The guard skipped these updates; the training continues.",
    "roll_back": "The guard returned to an earlier checkpoint and skips the samples of the event.",
    "restart": "The segment ends, and the next one resumes from the newest good checkpoint.",
    "stop": "The guard ended the training.",
}
_EVENTS = {Kind.SPIKE: "spike", Kind.DIVERGENCE: "divergence", Kind.NON_FINITE: "non_finite"}


@dataclass(frozen=True)
class Advice:
    """Parts of a message besides the condition itself."""

    where: str
    """Node, rank or job; empty if the condition has no place."""
    done: str
    """Action that Bloomery has taken or will take; empty if there is none."""
    command: str
    """Command that a person can type."""


def title_of(kind: str) -> str:
    """Return the short title of a kind of condition."""
    return TITLES.get(Kind(kind), kind) if kind in list(Kind) else kind


def advise(finding: Finding, facts: RunFacts) -> Advice:
    """Return the place of a finding, what was done, and what to type."""
    return Advice(_where(finding, facts), _done(finding, facts), _command(finding, facts))


def _where(finding: Finding, facts: RunFacts) -> str:
    if finding.rank is not None:
        host = _host_of_rank(finding.rank, facts)
        return f"rank {finding.rank}" + (f" on {host}" if host else "")
    if finding.kind in (Kind.CRASH, Kind.CRASH_BUDGET, Kind.IDLE):
        attempt = facts.attempt
        if attempt is None:
            return ""
        failed = attempt.first_failure
        if failed is not None:
            return f"rank {failed.rank} on {failed.host}, which {failed.ending}"
        return ", ".join(attempt.nodes)
    if finding.kind in (Kind.STALL, Kind.THROUGHPUT, Kind.NON_FINITE, Kind.LOSS_SCALE, Kind.CHECKPOINT):
        return _shortened(facts.nodes)
    return ""


def _shortened(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")


def _host_of_rank(rank: int, facts: RunFacts) -> str | None:
    """Return the node of a rank. Ranks follow the order of the nodes, and every node has equally many ranks."""
    world = facts.train.training.parallel.world_size
    if not facts.nodes or world % len(facts.nodes) or rank >= world:
        return None
    return facts.nodes[rank // (world // len(facts.nodes))]


def _done(finding: Finding, facts: RunFacts) -> str:
    if finding.kind in _EVENTS:
        actions = [each.action for each in facts.events if each.event == _EVENTS[finding.kind]]
        return _ACTIONS[actions[-1]] if actions else "No guard acted; the training continues."
    if finding.kind in (Kind.CRASH, Kind.CRASH_BUDGET):
        return _resumption(facts)
    if finding.kind is Kind.IDLE:
        failed = facts.attempt is not None and facts.attempt.status is SegmentStatus.FAILED
        return "Nothing: an error like this one is not retried." if failed else "Nothing: no workflow runs."
    if finding.kind is Kind.SYNC:
        return "The watcher tries each later sync again."
    if finding.kind is Kind.SCHEDULER:
        return "Until the scheduler answers, the watcher looks only at the run's files."
    return ""


def _resumption(facts: RunFacts) -> str:
    """Return which segment resumes from which checkpoint."""
    attempt, checkpoint = facts.attempt, facts.status.checkpoint
    if attempt is None:
        return ""
    origin = f"resumes from {checkpoint.name}" if checkpoint else "starts from the beginning"
    jobs = training_jobs(facts.status.queue.jobs)
    if facts.status.state is RunState.QUEUED and jobs:
        return f"Segment {attempt.number + 1} waits in the queue (job {jobs[0].job}) and {origin}."
    if facts.status.state is RunState.STOPPED:
        return f"Nothing. A new workflow {origin}."
    return f"Segment {attempt.number + 1} {origin}."


def _command(finding: Finding, facts: RunFacts) -> str:
    run = shlex.quote(facts.status.run)
    if finding.kind is Kind.IDLE:
        return facts.status.resume_command or "the command that started the run"
    if finding.kind is Kind.SYNC:
        return f"bloomery sync --run {run}"
    if finding.kind in (Kind.QUEUE_AGE, Kind.SCHEDULER):
        return "sinfo; squeue --me --start"
    if finding.kind is Kind.SLOW_RANK and finding.rank is not None and (host := _host_of_rank(finding.rank, facts)):
        return f"bloomery nodes exclude {host} --run {run}"
    if finding.kind is Kind.DISK:
        return f"df -h {run}; du -sh {run}/*"
    if finding.kind in (Kind.STALL, Kind.CRASH, Kind.CRASH_BUDGET, Kind.CHECKPOINT):
        return f"bloomery tail --run {run}"
    return f"bloomery status --run {run}"
