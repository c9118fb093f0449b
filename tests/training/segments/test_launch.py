"""Test that the launcher limits crashes without progress."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage
from segment_file import segment as segment_record

from bloomery.base.atomic import write_json
from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.training import TrainingConfig
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.launches import read_launches
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import identity
from bloomery.contracts.segment import Fault, Segment, SegmentStatus, read_segment
from bloomery.contracts.segment_start import read_start
from bloomery.orchestration.segment_chain import next_segment
from training.processes import run_processes
from training.segments import launch

CONFIGURATION = stage()


def test_a_contradictory_stage_file_is_refused_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage file that was edited by hand has not passed the checks of the run's YAML."""
    monkeypatch.setattr(launch, "start_command", lambda *_: pytest.fail("started"))
    values = stage().model_dump(mode="json")
    values["training"]["batch"] |= {"micro_batch_size": 3, "global_batch_size": 8}
    config = tmp_path / "train.json"
    write_json(config, values)
    with pytest.raises(InputError, match="batch sizes 8 are not divisible by micro_batch_size") as refused:
        launch.launch_segment(config, tmp_path, 1, tmp_path / "1.json")
    assert refused.value.where == str(config)
    assert not RunPaths(tmp_path).train.exists()


class Node:
    """A program that replaces the processes of a segment. It provides a real checkpoint and then crashes or finishes.

    The launcher starts the program as a real process instead of torchrun. The process moves the next prepared
    checkpoint, if there is one, to the run's checkpoints and kills itself. If `will_finish` was called, the process
    that moves the last checkpoint writes the result of a finished segment instead.
    """

    _PROGRAM = """
import os, shutil, signal, sys
prepared, checkpoints, result, finish = sys.argv[1:]
ready = sorted(os.listdir(prepared))
if ready:
    os.makedirs(checkpoints, exist_ok=True)
    os.rename(os.path.join(prepared, ready[0]), os.path.join(checkpoints, ready[0]))
if len(ready) > 1 or not os.path.exists(finish):
    os.kill(os.getpid(), signal.SIGKILL)
shutil.copyfile(finish, result)
"""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch, **segment: int) -> None:
        """Prepare a training without checkpoints. `segment` holds values of training.segment."""
        self.stage = stage(samples=400, segment=segment)
        self.config, self.paths = make_run(run, self.stage), RunPaths(run)
        self.prepared, self.finish = run / "prepared", run / "finish.json"
        self.prepared.mkdir()
        monkeypatch.setattr(launch, "start_command", self._command)
        monkeypatch.setattr(run_processes, "_LOOK_EVERY_SECONDS", 0.01)

    def _command(self, _training: TrainingConfig, _allocation: object, arguments: list[str]) -> list[str]:
        result = arguments[arguments.index("--result") + 1]
        program = [sys.executable, "-S", "-c", self._PROGRAM]
        return [*program, *map(str, (self.prepared, self.paths.checkpoints, result, self.finish))]

    def prepare(self, iterations: Iterable[int]) -> None:
        """Prepare one checkpoint for each of the next segments."""
        made = RunPaths(self.paths.run / "made")
        make_run(made.run, self.stage)
        for iteration in iterations:
            save_manifest(made, self.stage, iteration, 8 * iteration)
            (made.checkpoints / step_name(iteration)).rename(self.prepared / step_name(iteration))

    def will_finish(self, number: int, iteration: int) -> None:
        """Let segment `number` finish the training with its checkpoint of `iteration`."""
        own = identity(self.stage, read_index_manifest(self.paths.index_manifest))
        done = segment_record(number, SegmentStatus.FINISHED)
        update = {"iteration": iteration, "checkpoint": step_name(iteration), "identity": own}
        write_json(self.finish, {"segment": done.model_copy(update=update).model_dump(mode="json")})

    def run(self, number: int) -> Segment:
        segment = launch.launch_segment(self.config, self.paths.run, number, self.paths.segments / f"{number}.json")
        assert segment is not None
        return segment


def test_a_training_that_crashes_20_times_with_progress_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each crash comes after a new checkpoint, as if single nodes failed over months."""
    node = Node(tmp_path, monkeypatch, max_crashes=2, max_restarts_without_progress=3)
    node.prepare(range(1, 22))
    node.will_finish(21, 21)
    chain: list[Segment] = []
    while next_segment([str(node.paths.segments / f"{each.number}.json") for each in chain], 1000) is not None:
        chain.append(node.run(len(chain) + 1))
    assert [each.status for each in chain] == [SegmentStatus.CRASHED] * 20 + [SegmentStatus.FINISHED]
    assert [each.crashes for each in chain] == [1] * 20 + [0]
    assert all(each.new_checkpoint for each in chain)
    assert [each.checkpoint for each in chain] == [step_name(each) for each in range(1, 22)]
    recorded = [read_segment(node.paths.segments / "history" / f"{each.number}-1.json") for each in chain]
    assert recorded == chain, "the history shows the same progress"
    assert [each.segment for each in read_launches(node.paths)] == list(range(1, 22))
    assert "segment 20 crashed after it saved checkpoint step00000020" in capsys.readouterr().err


def test_crashes_without_a_new_checkpoint_end_the_training_also_after_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch, max_crashes=2, max_restarts_without_progress=9)
    node.prepare([2, 4])
    crashes = [node.run(number) for number in (1, 2, 3)]
    assert [(each.checkpoint, each.new_checkpoint, each.crashes) for each in crashes] == [
        ("step00000002", True, 1),
        ("step00000004", True, 1),
        ("step00000004", False, 2),
    ]
    for attempt in (1, 2):
        with pytest.raises(CheckFailedError, match=f"crashed {attempt + 2} times since its last new checkpoint"):
            node.run(4)
        ended = read_segment(node.paths.segments / "history" / f"4-{attempt}.json")
        assert (ended.status, ended.new_checkpoint, ended.crashes) == (SegmentStatus.CRASHED, False, attempt + 2)
    assert not (node.paths.segments / "4.json").exists()
    # A person fixed the cause and ran the same command again. A crash after a new checkpoint counts as the first one.
    node.prepare([6])
    assert node.run(4).crashes == 1


def test_too_many_starts_without_a_new_checkpoint_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch, max_crashes=100, max_restarts_without_progress=3)
    node.prepare([2])
    assert [node.run(number).crashes for number in (1, 2, 3, 4)] == [1, 2, 3, 4]
    with pytest.raises(CheckFailedError, match="3 starts in a row saved no new checkpoint; the last attempt ended"):
        node.run(5)


def test_without_a_crash_budget_the_first_crash_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, monkeypatch, max_crashes=0)
    node.prepare([2])
    with pytest.raises(CheckFailedError, match="crashed 1 time since its last new checkpoint"):
        node.run(1)
    assert read_segment(node.paths.segments / "history" / "1-1.json").new_checkpoint


def test_a_segment_after_the_end_of_the_training_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of the next segment waits in the queue of SLURM, and may start after the training has finished."""
    node = Node(tmp_path, monkeypatch)
    node.prepare([2])
    node.will_finish(1, 2)
    assert node.run(1).status is SegmentStatus.FINISHED
    output = node.paths.segments / "2.json"
    assert launch.launch_segment(node.config, node.paths.run, 2, output) is None
    assert not output.exists()


def test_a_record_states_where_and_when_a_segment_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, monkeypatch)
    node.prepare([2])
    done = node.run(1)
    assert (done.job, done.nodes, done.fault) == (None, (socket.gethostname(),), Fault.PROCESS)
    assert done.started is not None
    assert done.ended is not None
    assert done.started <= done.ended
    start = read_start(node.paths, 1)
    assert start is not None
    assert (start.started, start.iteration, start.error) == (done.started, 0, None)
