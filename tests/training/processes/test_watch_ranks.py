"""Test what the launcher does with heartbeats: which ones count, how a hang is described, and how ranks are ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fabricated_training import stage
from heartbeats import group, heartbeat
from waiting import wait_for

from bloomery.config.training import TrainingConfig
from bloomery.contracts.heartbeat import LAUNCH_VARIABLE, Heartbeat, Place, end_request, stacks_request, write_heartbeat
from bloomery.contracts.paths import RunPaths
from bloomery.detect.hang import Hang
from training.processes import watch_ranks
from training.processes.watch_ranks import RankWatch, ReportedHang, _ask_by_signal, _report

_STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
print("begun", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Start a process that ignores requests to end. Shorten the waits for answers, which it does not give."""
    for name in ("_STACKS_SECONDS", "_SIGNAL_SECONDS", "_END_SECONDS"):
        monkeypatch.setattr(watch_ranks, name, 0.1)
    process = subprocess.Popen([sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def _training(first_minutes: float) -> TrainingConfig:
    return stage(data=2, heartbeat={"first_minutes": first_minutes}).training


class Looks:
    """Looks of a launcher, while rank 0 of 2 ranks writes heartbeats without progress. Rank 1 writes none."""

    def __init__(self, watch: RankWatch, folder: Path, process: subprocess.Popen[str], launch: str) -> None:
        self.hang: ReportedHang | None = None
        self._watch, self._folder, self._process, self._launch, self._beat = watch, folder, process, launch, 0

    def look(self) -> bool:
        self._beat += 1
        write_heartbeat(self._folder, heartbeat(0, beat=self._beat, launch=self._launch, allowed_seconds=1.0))
        self.hang = self._watch.look(self._process)
        return self.hang is not None


def test_a_rank_that_never_starts_is_named_and_processes_that_ignore_the_request_are_killed(
    tmp_path: Path, processes: subprocess.Popen[str]
) -> None:
    paths = RunPaths(tmp_path)
    old = paths.heartbeats / "1.json"
    old.parent.mkdir(parents=True)
    old.write_text("heartbeat of an earlier segment")
    watch = RankWatch(paths, _training(first_minutes=0.02), 7)
    assert not old.exists()
    launch = watch.environment[LAUNCH_VARIABLE]
    looks = Looks(watch, paths.heartbeats, processes, launch)
    wait_for(looks.look)
    assert looks.hang is not None
    assert looks.hang.first_failure.rank == 1
    assert "rank 1 (which wrote no heartbeat) made no progress for" in looks.hang.message
    assert str(paths.hangs / "7-1") in looks.hang.message
    assert stacks_request(paths.heartbeats, launch).read_text() == str((paths.hangs / "7-1").resolve())
    assert end_request(paths.heartbeats, launch).exists()
    assert "rank 1: it wrote no heartbeat\n" in (paths.hangs / "7-1/no-stacks.txt").read_text()
    assert processes.wait(30) == -9


def test_heartbeats_of_another_launch_do_not_count(tmp_path: Path, processes: subprocess.Popen[str]) -> None:
    """Without heartbeats of its own launch, the launcher assumes that the ranks still start or the disk is slow."""
    paths = RunPaths(tmp_path)
    watch = RankWatch(paths, _training(first_minutes=30.0), 1)
    looks = Looks(watch, paths.heartbeats, processes, "another")
    began = time.monotonic()
    wait_for(lambda: looks.look() or time.monotonic() > began + 3)
    assert looks.hang is None
    assert not list(paths.heartbeats.glob("end-ranks-*"))


def test_without_a_heartbeat_section_nothing_is_watched(tmp_path: Path, processes: subprocess.Popen[str]) -> None:
    watch = RankWatch(RunPaths(tmp_path), stage(data=2, heartbeat=None).training, 1)
    assert watch.look(processes) is None


@pytest.mark.parametrize(
    ("hang", "message"),
    [
        (
            Hang(95.2, (2,), False),
            "the training hung in iteration 5: rank 2 on node2 made no progress for 95 s; the other ranks wait for it",
        ),
        (
            Hang(95.2, (0, 2), False),
            "the training hung in iteration 5: ranks 0 on node0, 2 on node2 made no progress for 95 s; the other ranks "
            "wait for them",
        ),
        (
            Hang(95.2, (1,), True),
            "the training hung in iteration 5: rank 1 on node1 made no progress for 95 s; its process is stopped, or "
            "the node failed",
        ),
        (
            Hang(95.2, (0, 1, 2), False),
            "the training hung in iteration 5: ranks 0 on node0, 1 on node1, 2 on node2 made no progress for 95 s",
        ),
    ],
    ids=["one", "two", "stopped", "all"],
)
def test_a_hang_is_described_with_ranks_hosts_and_the_iteration(hang: Hang, message: str) -> None:
    beats = {rank: heartbeat(rank, channels=(group(1, 0, 1),)) for rank in range(3)}
    # The last record of a stopped process can be old.
    beats[1] = heartbeat(1, iteration=4, place=Place.VALIDATION)
    reported = _report(hang, beats, 3, None)
    assert reported.message == message
    assert (reported.first_failure.rank, reported.first_failure.ending) == (hang.ranks[0], "made no progress for 95 s")


def test_a_hang_in_a_save_says_so() -> None:
    beats = {rank: heartbeat(rank, place=Place.SAVING) for rank in range(2)}
    assert _report(Hang(700.0, (0,), False), beats, 2, Path("x")).message == (
        "the training hung while saving after iteration 5: rank 0 on node0 made no progress for 700 s; the other ranks "
        "wait for it; stacks are in x"
    )


_BUSY = """
import faulthandler, signal, sys
faulthandler.register(signal.SIGUSR2, file=sys.stderr, all_threads=True)
print("begun", flush=True)
sum(range(10**15))  # this C function holds Python's lock
"""


def _own(process: subprocess.Popen[str]) -> Heartbeat:
    return heartbeat(3, host=os.uname().nodename, pid=process.pid)


def test_a_rank_whose_threads_cannot_run_writes_its_stacks_after_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BUSY, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "begun\n"
            assert _ask_by_signal(_own(process), "/another/run") == "its process has ended"
            assert "the stacks are at the end of train/logs/ranks/3.log" in _ask_by_signal(_own(process), str(tmp_path))
            assert "most recent call first" in process.stderr.readline()
        finally:
            process.kill()


def test_a_rank_that_cannot_be_asked_is_described() -> None:
    assert _ask_by_signal(None, "run") == "it wrote no heartbeat"
    assert _ask_by_signal(heartbeat(1, place=Place.ENDED), "run") == "it has ended its work"
    assert _ask_by_signal(heartbeat(1), "run") == "it does not answer on node1"
