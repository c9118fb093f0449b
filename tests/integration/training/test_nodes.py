"""Test a training on two machines without a scheduler. The machines are network namespaces, each with two ranks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from recorded_losses import recorded_losses
from training_launcher import Launcher
from two_machines import TwoMachines, two_machines
from waiting import wait_for

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SHAPE = {"tensor": 2, "pipeline": 1, "data": 2, "samples": 800, "checkpoint": {"every_iterations": 4}}

COMPARED = 13
"""Number of iterations that are compared with the training on one machine."""


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    with two_machines() as machines:
        yield machines


class Nodes:
    """Run `bloomery train run` on both machines. The output of each command goes to its own file."""

    def __init__(self, machines: TwoMachines, run: Path) -> None:
        self.machines, self.run = machines, run
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, rank: int) -> None:
        command = [sys.executable, "-m", "bloomery.cli", "train", "run", "--run", str(self.run), "--nodes", "2"]
        command += ["--ranks-per-node", "2", "--node-rank", str(rank), "--node-silence-seconds", "4"]
        command += ["--master-address", self.machines.ADDRESSES[0]]
        with self.output(rank).open("ab") as output:
            self.processes[rank] = subprocess.Popen(
                self.machines.command(rank, command),
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self, rank: int) -> Path:
        return self.run.parent / f"node{rank}.txt"

    def text(self, rank: int) -> str:
        return self.output(rank).read_text()

    def wait(self, condition) -> None:
        """Wait for a condition. Fail with the output of both nodes if a command ends before."""

        def holds() -> bool:
            ended = [rank for rank, process in self.processes.items() if process.poll() is not None]
            # The condition is polled after the commands, whose last step may have made it true.
            true = bool(condition())
            assert true or not ended, f"node {ended} ended\n{self.text(0)}\n--- node 1\n{self.text(1)}"
            return true

        wait_for(holds, 240)

    def codes(self) -> list[int]:
        """Wait for the end of both commands and return their exit codes."""
        return [self.processes[rank].wait(240) for rank in (0, 1)]

    def wait_for_iteration(self, iteration: int) -> None:
        metrics = self.run / "train/logs/metrics.jsonl"

        def trained() -> bool:
            # The last line may be incomplete.
            lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
            return any(json.loads(line)["iteration"] >= iteration for line in lines)

        self.wait(trained)

    def wait_for_segment(self, number: int) -> None:
        self.wait((self.run / f"train/segments/history/{number}-1.json").exists)

    def segment(self, number: int) -> dict:
        return json.loads((self.run / f"train/segments/history/{number}-1.json").read_text())

    def kill(self) -> None:
        """Kill what is left when a test fails."""
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def nodes(machines: TwoMachines, tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(machines, tmp_path / "two")
    yield nodes
    nodes.kill()


def rank_process(run: Path, rank: int) -> int:
    """Return the id of the process of a rank."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and b"training.loop.main" in (folder / "cmdline").read_bytes():
                variables = (folder / "environ").read_bytes().split(b"\0")
                if f"RANK={rank}".encode() in variables and str(run).encode() in (folder / "cmdline").read_bytes():
                    return int(folder.name)
    raise AssertionError(f"no process of rank {rank}")


def test_two_machines_train_through_a_killed_rank_and_a_cut_network_to_a_stop_with_the_losses_of_one_machine(
    machines: TwoMachines, nodes: Nodes, tmp_path: Path
) -> None:
    make_run(nodes.run, stage(**SHAPE))
    # A node may be started before node 0.
    nodes.start(1)
    nodes.wait(lambda: "waiting for node 0 at 10.231.77.1, port 29500" in nodes.text(1))
    nodes.start(0)
    nodes.wait_for_iteration(5)
    os.kill(rank_process(nodes.run, 3), signal.SIGKILL)
    nodes.wait_for_segment(1)
    killed = nodes.segment(1)
    assert (killed["status"], killed["fault"], killed["new_checkpoint"]) == ("crashed", "process", True)
    nodes.wait_for_iteration(9)
    # Neither machine receives a notice that the other one cannot be reached any more.
    machines.set_link("down")
    nodes.wait_for_segment(2)
    cut = nodes.segment(2)
    assert (cut["status"], cut["fault"]) == ("crashed", "node")
    assert "node 1" in cut["message"]
    assert "is lost" in cut["message"]
    nodes.wait(lambda: "node 0 is lost" in nodes.text(1))
    machines.set_link("up")
    nodes.wait_for_iteration(13)
    (nodes.run / "train/control/stop").touch()
    assert nodes.codes() == [75, 75], nodes.text(0) + nodes.text(1)
    stopped = nodes.segment(3)
    assert stopped["status"] == "stopped"
    assert f"node 0: {nodes.run / 'train'}: stopped after iteration {stopped['iteration']} of 51" in nodes.text(1)
    losses = recorded_losses(nodes.run / "train/logs/metrics.jsonl")
    assert list(losses) == list(range(1, stopped["iteration"] + 1))
    alone = tmp_path / "one"
    launcher = Launcher(alone, make_run(alone, stage(**SHAPE, segment={"iterations": COMPARED})))
    assert launcher.segment()["iteration"] == COMPARED
    assert launcher.losses() == {iteration: losses[iteration] for iteration in range(1, COMPARED + 1)}
