"""Check all nodes at the start of a segment, and build the mesh of ranks between the two groups of checks.

First, each process checks its GPU and its node alone. The reports travel through torchrun's key-value store, so a
broken node does not let the others wait in a collective. Rank 0 judges the reports. Then the process group is built,
and the processes measure their communication. Rank 0 judges again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from bloomery.base import slurm
from bloomery.base.errors import BloomeryError, ResourceError, TryAgainError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.config.stages import TrainStage
from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.preflight import (
    CommunicationState,
    Preflight,
    Problem,
    ProblemKind,
    RankState,
    preflight_path,
    write_preflight,
)
from bloomery.contracts.segment import FirstFailure
from training.checkpoint.next_checkpoint import next_checkpoint_bytes
from training.parallel.mesh import Mesh, build_mesh
from training.parallel.place import Place, own_place
from training.preflight.act_on_problems import act_on_problems, described, error_of
from training.preflight.all_reduce import communicate
from training.preflight.check_rank import rank_checks
from training.preflight.exchange import Exchange
from training.preflight.judge import judge_ranks
from training.preflight.judge_communication import judge_communication
from training.preflight.preflight_error import PreflightError
from training.preflight.run_checks import run_checks

State = TypeVar("State", bound=BaseModel)
_ANSWER_SECONDS = 60.0
"""Maximum number of seconds in which rank 0 judges the reports and writes its files."""
_ALONE, _TOGETHER = "alone", "together"


def build_checked_mesh(stage: TrainStage, paths: RunPaths, number: int) -> Mesh:
    """Check the nodes of segment `number`, and build the mesh of its ranks. Collective.

    Rank 0 writes train/preflight/<number>.json, and excludes nodes that failed from the next segments.

    Raises:
        PreflightError: a node failed a check, or the folder of the run has no space for a checkpoint.
        ResourceError: GPUs are missing on all nodes.
        ConfigError: the number of processes is not tensor x pipeline x data.
        InputError: the list of excluded nodes is damaged.
    """
    limits = stage.training.preflight
    if limits is None:
        return build_mesh(stage.training.parallel)
    place = own_place()
    preflight = _SegmentPreflight(stage, paths, number, limits, place)
    hosts = preflight.check_alone()
    mesh = build_mesh(stage.training.parallel)
    preflight.check_together(hosts, mesh)
    return mesh


class _SegmentPreflight:
    """The preflight of one segment, as one process runs it."""

    def __init__(self, stage: TrainStage, paths: RunPaths, number: int, limits: PreflightConfig, place: Place) -> None:
        self._stage, self._paths, self._number, self._limits, self._place = stage, paths, number, limits, place
        self._began = time.monotonic()
        self._in_job = slurm.own_job() is not None and slurm.own_node() is not None
        self._ranks: tuple[RankState, ...] = ()
        self._problems: tuple[Problem, ...] = ()
        self._excluded: tuple[str, ...] = ()
        self._exchange: Exchange | None = None
        self._own_answer: dict[str, Any] = {}

    def check_alone(self) -> list[str]:
        """Check each process alone. Return the node of each rank."""
        place, seconds = self._place, self._limits.max_seconds / 2
        start, checks = rank_checks(place, self._paths.train)
        began = time.monotonic()
        state, error = run_checks(checks, start, seconds)
        state = state.model_copy(update={"error": error, "seconds": time.monotonic() - began})
        if place.world > 1:
            self._exchange = self._connect()
        reports = self._collect(_ALONE, state, self._limits.start_seconds)
        if reports is not None:
            self._ranks = tuple(report for report in reports if report is not None)
            absent = [rank for rank, report in enumerate(reports) if report is None]
            problems = judge_ranks(
                self._ranks, self._limits, next_checkpoint_bytes(self._stage, self._paths), self._in_job
            )
            self._conclude(_ALONE, [*problems, *self._absent(absent, self._limits.start_seconds)])
        # The time is doubled, because rank 0 may itself start late and then waits for the other ranks.
        answer = self._answer(_ALONE, 2 * self._limits.start_seconds)
        return [str(host) for host in answer["hosts"]]

    def check_together(self, hosts: Sequence[str], mesh: Mesh) -> None:
        """Check the communication of all processes. `hosts` names the node of each rank. Collective."""
        if len(set(hosts)) < 2 and (len(hosts) < 2 or mesh.device.type == "cpu"):
            return
        start = CommunicationState(rank=mesh.rank, host=hosts[mesh.rank])
        began, seconds = time.monotonic(), self._limits.max_seconds / 2
        state, error = run_checks(lambda findings: communicate(findings, hosts, mesh.device), start, seconds)
        state = state.model_copy(update={"error": error, "seconds": time.monotonic() - began})
        reports = self._collect(_TOGETHER, state, seconds)
        if reports is not None:
            states = tuple(report for report in reports if report is not None)
            absent = [rank for rank, report in enumerate(reports) if report is None]
            problems = [*judge_communication(states, self._limits), *self._absent(absent, seconds)]
            self._conclude(_TOGETHER, problems, states)
        self._answer(_TOGETHER, seconds)

    def _connect(self) -> Exchange:
        place = self._place
        try:
            return Exchange.connect(place.rank, place.world, self._limits.start_seconds)
        except RuntimeError as error:
            failure = FirstFailure(rank=place.rank, host=place.host, ending="could not reach the first node")
            raise PreflightError(
                "the key-value store on the first node does not answer",
                where=place.host,
                expected="a network between the nodes of the job",
                first_failure=failure,
            ) from error

    def _collect(self, topic: str, state: State, seconds: float) -> list[State | None] | None:
        """Send this process's report. Return the reports of all ranks on rank 0, and None on other ranks."""
        if self._exchange is None:
            return [state]
        self._exchange.report(topic, state.model_dump_json())
        if self._place.rank != 0:
            return None
        kind = type(state)
        reports = self._exchange.collect(topic, seconds)
        return [None if report is None else kind.model_validate_json(report) for report in reports]

    def _absent(self, ranks: Sequence[int], seconds: float) -> list[Problem]:
        """Return one problem for each rank in `ranks`, which did not report."""
        known = {state.rank: state.host for state in self._ranks}
        return [
            Problem(
                kind=ProblemKind.NO_REPORT,
                message=f"rank {rank} did not report within {seconds:g} s",
                host=known.get(rank),
                rank=rank,
                exclude=rank in known,
            )
            for rank in ranks
        ]

    def _conclude(
        self, topic: str, problems: Sequence[Problem], communication: tuple[CommunicationState, ...] = ()
    ) -> None:
        """Act on the problems, write the record of the preflight, and tell all ranks. Only rank 0 calls this."""
        hosts = {state.rank: state.host for state in self._ranks}
        now = datetime.now(UTC)
        found = act_on_problems(problems, self._paths, self._limits, len(set(hosts.values())), now, in_job=self._in_job)
        self._problems += found.problems
        record = preflight_path(self._paths.preflight, self._number)
        self._excluded += found.excluded
        self._write(record, communication)
        error = error_of(found, record)
        for problem in found.problems:
            if not problem.ends_segment:
                say(f"preflight: {described(problem)}")
        for note in found.notes:
            say(note)
        answer = {"hosts": [hosts.get(rank, "") for rank in range(self._place.world)], "error": _packed(error)}
        if self._exchange is not None:
            self._exchange.answer(topic, json.dumps(answer))
        if error is not None:
            raise error
        self._own_answer = answer

    def _write(self, record: Path, communication: tuple[CommunicationState, ...]) -> None:
        """Write the record of the preflight. The training does not need it, so a full disk is only reported here."""
        try:
            write_preflight(
                record,
                Preflight(
                    segment=self._number,
                    time=utc_now(),
                    seconds=round(time.monotonic() - self._began, 3),
                    ranks=self._ranks,
                    communication=communication,
                    problems=self._problems,
                    excluded=self._excluded,
                ),
            )
        except (ResourceError, TryAgainError) as error:
            say(f"preflight: the record of the preflight is not written: {error}")

    def _answer(self, topic: str, seconds: float) -> dict[str, Any]:
        """Return rank 0's answer, or raise the error that it contains."""
        if self._place.rank == 0 or self._exchange is None:
            return self._own_answer
        text = self._exchange.read_answer(topic, seconds + _ANSWER_SECONDS)
        if text is None:
            raise PreflightError(
                f"rank 0 did not answer within {seconds + _ANSWER_SECONDS:g} s",
                where=self._place.host,
                expected="an answer of rank 0; the log of rank 0 may contain an error",
            )
        answer: dict[str, Any] = json.loads(text)
        if answer["error"] is not None:
            raise _unpacked(answer["error"])
        return answer


def _packed(error: BloomeryError | None) -> dict[str, Any] | None:
    """Return an error as JSON."""
    if error is None:
        return None
    record = error.record if isinstance(error, PreflightError) else None
    return {"what": error.what, "where": error.where, "expected": error.expected, "record": record}


def _unpacked(packed: dict[str, Any]) -> BloomeryError:
    """Return the error that `_packed` turned into JSON."""
    what, where, expected = packed["what"], packed["where"], packed["expected"]
    if packed["record"] is None:
        return ResourceError(what, where=where, expected=expected)
    failure = packed["record"]["first_failure"]
    first = None if failure is None else FirstFailure.model_validate(failure)
    return PreflightError(what, where=where, expected=expected, first_failure=first)
