"""Test that a training without a workflow runs segment after segment, with the limits of the workflow."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage
from ranks import free_port
from segment_file import segment as segment_record
from waiting import wait_for

from bloomery.base.atomic import write_json
from bloomery.base.errors import BloomeryError, CheckFailedError, ConfigError, TryAgainError
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment
from training.nodes import node_group
from training.nodes.place import NodePlace
from training.processes import run_processes
from training.resume.resolve_resume import resolve_resume
from training.segments import launch
from training.segments.run_segments import run_segment_on_nodes, run_training

_PROGRAM = """
import os, sys, time
plan, result = sys.argv[1:]
step = sorted(os.listdir(plan))[0]
path = os.path.join(plan, step)
kind = step.partition("-")[2]
if kind == "stop":
    open(open(path).read(), "w").close()
elif kind == "report":
    os.rename(path, result)
if kind != "report":
    os.unlink(path)
    sys.exit(1)
"""
"""Program that replaces the processes of a segment. It takes the next step of a plan: report a segment, crash, or
create the stop file and crash."""


class Plan:
    """What the processes of each segment do, in order."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch, **segment: int) -> None:
        self.stage = stage(segment=segment)
        self.config, self.paths = make_run(run, self.stage), RunPaths(run)
        self.folder = run / "plan"
        self.folder.mkdir()
        self.paths.segments.mkdir(parents=True)
        self.count = 0
        monkeypatch.setattr(launch, "start_command", lambda _training, _allocation, rest: self.command(rest))
        monkeypatch.setattr(NodePlace, "torchrun", lambda _place, _port, rest: self.command(rest))
        monkeypatch.setattr(run_processes, "_LOOK_EVERY_SECONDS", 0.01)
        monkeypatch.setattr(node_group, "_GRACE_SECONDS", 0.05)

    def command(self, arguments: list[str]) -> list[str]:
        result = arguments[arguments.index("--result") + 1]
        return [sys.executable, "-S", "-c", _PROGRAM, str(self.folder), result]

    def _add(self, kind: str) -> Path:
        self.count += 1
        return self.folder / f"{self.count:02d}-{kind}"

    def crash(self, *, and_stop: bool = False) -> None:
        self._add("stop" if and_stop else "crash").write_text(str(self.paths.control / "stop"))

    def report(self, status: SegmentStatus, iteration: int = 2) -> None:
        """Report a segment that ended at a new checkpoint."""
        save_manifest(self.paths, self.stage, iteration, 8 * iteration)
        resume = resolve_resume(self.stage, self.paths)
        record = segment_record(1, status).model_dump(mode="json")
        update = {"iteration": iteration, "checkpoint": step_name(iteration), "identity": resume.identity}
        update["total_iterations"] = resume.total_iterations
        write_json(self._add("report"), {"segment": record | update})


def test_segments_follow_each_other_until_the_training_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(tmp_path, monkeypatch)
    plan.crash()
    plan.report(SegmentStatus.TIME_LIMIT, 1)
    plan.report(SegmentStatus.FINISHED, 2)
    run_training(plan.config, tmp_path)
    records = [read_segment(plan.paths.segments / f"{number}.json") for number in (1, 2, 3)]
    assert [each.status.value for each in records] == ["crashed", "time_limit", "finished"]
    assert read_segment(plan.paths.finished) == records[2]
    assert not list(plan.folder.iterdir())


def test_a_training_that_a_workflow_began_continues_with_its_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(tmp_path, monkeypatch)
    plan.report(SegmentStatus.TIME_LIMIT, 1)
    launch.launch_segment(plan.config, tmp_path, 1, plan.paths.segments / "1.json")
    plan.report(SegmentStatus.FINISHED, 2)
    run_training(plan.config, tmp_path)
    assert read_segment(plan.paths.segments / "2.json").status is SegmentStatus.FINISHED


def test_too_many_crashes_end_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(tmp_path, monkeypatch, max_crashes=1)
    plan.crash()
    plan.crash()
    with pytest.raises(CheckFailedError, match="crashed 2 times since its last new checkpoint"):
        run_training(plan.config, tmp_path)
    assert not plan.paths.finished.exists()


def test_too_many_segments_end_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(tmp_path, monkeypatch, max_segments=2)
    plan.report(SegmentStatus.TIME_LIMIT, 1)
    plan.report(SegmentStatus.TIME_LIMIT, 2)
    with pytest.raises(CheckFailedError, match="not finished after 2 segments"):
        run_training(plan.config, tmp_path)


def test_a_stop_during_a_segment_that_crashes_starts_no_further_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(tmp_path, monkeypatch)
    plan.crash(and_stop=True)
    with pytest.raises(TryAgainError, match="stopped after segment 1, which ended with status 'crashed'"):
        run_training(plan.config, tmp_path)
    assert not (plan.paths.control / "stop").exists()
    plan.report(SegmentStatus.FINISHED)
    run_training(plan.config, tmp_path)
    assert read_segment(plan.paths.segments / "2.json").status is SegmentStatus.FINISHED


def test_a_signal_while_nodes_are_missing_ends_the_command_with_code_75(tmp_path: Path) -> None:
    config = make_run(tmp_path, stage(data=2))
    command = [sys.executable, "-m", "bloomery.cli", "train", "run", "--run", str(tmp_path), "--config", str(config)]
    port = str(free_port())
    command += ["--nodes", "2", "--node-rank", "0", "--master-address", "127.0.0.1", "--master-port", port]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def listens() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", int(port))) == 0

    wait_for(listens, process=process)
    # The lease is taken right before node 0 waits for the other nodes.
    lease = RunPaths(tmp_path).train / "lease"
    wait_for(lambda: lease.exists() and lease.read_text(), process=process)
    process.send_signal(signal.SIGTERM)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 75, talk
    assert "asked to stop" in talk
    assert not list((RunPaths(tmp_path).segments / "history").glob("*"))


def test_nodes_without_the_processes_that_the_layout_needs_are_refused(tmp_path: Path) -> None:
    config = make_run(tmp_path, stage(data=2))
    for rank in (0, 1):
        with pytest.raises(ConfigError, match="4 nodes x 1 processes = 4 processes"):
            run_training(config, tmp_path, NodePlace(4, rank, 1, "127.0.0.1"))


@pytest.fixture
def two_places(monkeypatch: pytest.MonkeyPatch) -> list[NodePlace]:
    """Return the places of two nodes. Signals are left alone, because node 1 runs in a thread."""
    monkeypatch.setattr("training.processes.stop_signals.signal.signal", lambda *_: signal.SIG_DFL)
    port = free_port()
    return [NodePlace(2, rank, 1, "127.0.0.1", port, silence_seconds=4, wait_minutes=1) for rank in (0, 1)]


def _together(*calls) -> list[BaseException | None]:
    """Run each call, the first one in this thread. Return their errors."""
    errors: list[BaseException | None] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            calls[number]()
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(1, len(calls))]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return errors


def test_all_nodes_end_when_the_training_is_finished_also_if_it_had_finished_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_places: list[NodePlace]
) -> None:
    plan = Plan(tmp_path, monkeypatch)
    plan.stage = stage(data=2)
    make_run(tmp_path, plan.stage)
    own = {0: plan.command, 1: lambda _rest: [sys.executable, "-S", "-c", "pass"]}
    monkeypatch.setattr(NodePlace, "torchrun", lambda place, _port, rest: own[place.rank](rest))
    plan.report(SegmentStatus.FINISHED)
    calls = [lambda place=place: run_training(plan.config, tmp_path, place) for place in two_places]
    assert _together(*calls) == [None, None]
    finished = read_segment(plan.paths.finished)
    assert finished.status is SegmentStatus.FINISHED
    assert not list(plan.folder.iterdir())
    # The record is still valid, so no process starts. Node 0 waits for the other node, to tell it the end.
    output = tmp_path / "again.json"
    calls = [lambda place=place: run_segment_on_nodes(plan.config, tmp_path, 1, output, place) for place in two_places]
    assert _together(*calls) == [None, None]
    assert read_segment(output) == finished


def test_all_nodes_end_with_the_error_of_node_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_places: list[NodePlace]
) -> None:
    plan = Plan(tmp_path, monkeypatch, max_crashes=0)
    plan.stage = stage(data=2, segment={"max_crashes": 0})
    make_run(tmp_path, plan.stage)
    plan.crash()
    own = {0: plan.command, 1: lambda _rest: [sys.executable, "-S", "-c", "import time; time.sleep(600)"]}
    monkeypatch.setattr(NodePlace, "torchrun", lambda place, _port, rest: own[place.rank](rest))
    monkeypatch.setattr("training.nodes.follow._GRACE_SECONDS", 0.05)
    calls = [lambda place=place: run_training(plan.config, tmp_path, place) for place in two_places]
    first, second = _together(*calls)
    assert isinstance(first, CheckFailedError)
    assert isinstance(second, BloomeryError)
    assert second.exit_code == first.exit_code == 1
    assert str(second) == f"node 0: {first}"
