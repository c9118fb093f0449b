"""Test which rank counts as the first failed one, and that a request ends the processes of a node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

from bloomery.contracts.heartbeat import LAUNCH_VARIABLE, end_request
from bloomery.contracts.segment import FirstFailure
from training.processes.end_of_ranks import RankFailure, first_failure, write_failures


def _failure(rank: int, at: float, *, exit_code: int) -> RankFailure:
    return RankFailure(rank=rank, host=f"node{rank // 2}", exit_code=exit_code, at=at)


def test_the_earliest_failure_of_all_nodes_counts(tmp_path: Path) -> None:
    write_failures(tmp_path, [_failure(0, 105.0, exit_code=1), _failure(1, 104.0, exit_code=1)])
    write_failures(tmp_path, [_failure(2, 103.2, exit_code=3), _failure(3, 107.0, exit_code=-9)])
    assert first_failure(tmp_path) == FirstFailure(rank=2, host="node1", ending="ended with code 3")


def test_ranks_that_torchrun_ended_do_not_count(tmp_path: Path) -> None:
    """torchrun sends SIGTERM to the other ranks, and SIGKILL to those that still run 30 s later."""
    ended = [_failure(0, 104.0, exit_code=-15), _failure(1, 134.2, exit_code=-9), _failure(2, 104.1, exit_code=1)]
    write_failures(tmp_path, ended)
    assert first_failure(tmp_path) == FirstFailure(rank=2, host="node1", ending="ended with code 1")


def test_the_end_of_a_child_process_is_noted_before_its_parent_waits_for_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _NOTES, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "noted\n", done.stderr


def test_a_rank_that_a_signal_ended_comes_before_others_of_the_same_second(tmp_path: Path) -> None:
    write_failures(tmp_path, [_failure(0, 104.1, exit_code=1)])
    write_failures(tmp_path, [_failure(2, 104.8, exit_code=1), _failure(3, 104.9, exit_code=-9)])
    assert first_failure(tmp_path) == FirstFailure(rank=3, host="node1", ending="was ended by signal SIGKILL")


@pytest.mark.parametrize("damage", ["", "[1]", '[{"rank": -1}]', "{}"])
def test_a_damaged_record_is_ignored(tmp_path: Path, damage: str) -> None:
    (tmp_path / "failed-0.json").write_text(damage)
    assert first_failure(tmp_path) is None


def test_without_records_no_rank_failed(tmp_path: Path) -> None:
    assert first_failure(tmp_path / "missing") is None


_NOTES = """
import subprocess, sys, time
from pathlib import Path
from training.processes.end_of_ranks import NodeRanks
ranks, began = NodeRanks(Path(sys.argv[1])), time.time()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
while child.pid not in ranks._alive:
    time.sleep(0.01)
child.stdin.close()
while child.pid not in ranks._ended:
    time.sleep(0.01)
assert began < ranks.ended_at(child.pid) <= time.time()
child.wait()
print("noted")
"""
_NODE = """
import subprocess, sys
from pathlib import Path
from training.processes.end_of_ranks import NodeRanks
NodeRanks(Path(sys.argv[1]))
rank = "import os, signal; print('begun', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
sys.exit(-subprocess.run([sys.executable, "-c", rank]).returncode)
"""


def test_a_request_kills_also_a_stopped_process(tmp_path: Path) -> None:
    environment = {**os.environ, LAUNCH_VARIABLE: "new"}
    command = [sys.executable, "-c", _NODE, str(tmp_path)]
    end_request(tmp_path, "old").touch()
    node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    assert node.stdout.readline() == "begun\n"
    end_request(tmp_path, "new").touch()
    wait_for(lambda: node.poll() is not None)
    assert node.returncode == 9
    node.stdout.close()


_FAILS = """
import os, signal, subprocess, sys, time
from pathlib import Path
from training.processes.end_of_ranks import NodeRanks
ranks = NodeRanks(Path(sys.argv[1]))
rank = "import sys; sys.stdin.read(); " + sys.argv[2]
child = subprocess.Popen([sys.executable, "-c", rank], stdin=subprocess.PIPE, env={**os.environ, "RANK": "6"})
while 6 not in ranks._alive.values():
    time.sleep(0.01)
print("begun", flush=True)
sys.stdin.read()
child.stdin.close()
signal.pause()
"""


@pytest.mark.parametrize(
    ("ends", "ending"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal SIGKILL"),
        ("sys.exit(3)", "ended with code 3"),
    ],
)
def test_a_failed_rank_is_recorded_before_torchrun_reports_it(tmp_path: Path, ends: str, ending: str) -> None:
    command = [sys.executable, "-c", _FAILS, str(tmp_path), ends]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdin is not None
            assert node.stdout is not None
            assert node.stdout.readline() == "begun\n"
            node.stdin.close()
            # The parent of the rank neither waits for it nor ends, like a torchrun that ends its other ranks first.
            wait_for(lambda: first_failure(tmp_path) is not None)
        finally:
            node.kill()
    assert first_failure(tmp_path) == FirstFailure(rank=6, host=os.uname().nodename, ending=ending)
