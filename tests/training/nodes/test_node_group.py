"""Test that node 0 accepts the right nodes, starts and ends their processes, and notices failures."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from local_nodes import LocalNodes
from segment_file import segment as segment_record
from waiting import wait_for

import bloomery
from bloomery.base.errors import ConfigError, ResourceError, TryAgainError
from bloomery.contracts.segment import Fault, SegmentStatus
from training.processes.run_processes import BY_SIGNAL


def test_a_node_runs_the_processes_of_each_segment_and_ends_with_node_0(nodes: LocalNodes, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    nodes.program = f"open({str(marks)!r}, 'a').write('x')"
    with nodes.group() as group:
        node = nodes.node()
        for number in (1, 2):
            group.wait_for_nodes()
            with group.segment(number, {}):
                wait_for(lambda number=number: marks.exists() and len(marks.read_text()) == number)
            assert group.failure() is None
        assert 20_000 <= group.port < 40_000
    node.join()
    assert node.error is None


def test_node_0_passes_its_exit_code_and_message_to_all_nodes(nodes: LocalNodes) -> None:
    nodes.place = replace(nodes.place, nodes=3)
    with nodes.group(exit_code=75, message="stopped after iteration 7") as group:
        others = [nodes.node(rank) for rank in (1, 2)]
        group.wait_for_nodes()
    for node in others:
        node.join()
        assert getattr(node.error, "exit_code", None) == 75
        assert str(node.error) == "node 0: stopped after iteration 7"


def test_failed_processes_of_a_node_end_the_segment_as_a_fault_of_a_process(nodes: LocalNodes) -> None:
    nodes.program = "raise SystemExit(3)"
    with nodes.group() as group:
        node = nodes.node()
        group.wait_for_nodes()
        with group.segment(1, {}):
            wait_for(group.failure)
        host = socket.gethostname()
        assert group.failure() == f"the processes of node 1 ({host}) ended with code 3"
        crashed = segment_record(1, SegmentStatus.CRASHED).model_copy(update={"message": "ended with code 1"})
        told = group.describe(crashed)
        assert told.fault is Fault.PROCESS
        assert told.message == f"ended with code 1; the processes of node 1 ({host}) ended with code 3"
        finished = segment_record(1, SegmentStatus.FINISHED)
        assert group.describe(finished) == finished.model_copy(update={"nodes": (host, host)})
    node.join()


def test_processes_that_outlive_those_of_node_0_are_killed_and_their_end_is_no_failure(nodes: LocalNodes) -> None:
    nodes.program = "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    with nodes.group() as group:
        node = nodes.node()
        group.wait_for_nodes()
        with group.segment(1, {}):
            pass
        assert group.failure() is None
        nodes.program = "pass"
        group.wait_for_nodes()
        with group.segment(2, {}):
            pass
    node.join()
    assert node.error is None


def test_a_stop_of_a_node_before_a_segment_ends_the_training_on_all_nodes(nodes: LocalNodes) -> None:
    nodes.place = replace(nodes.place, nodes=3)
    with nodes.group() as group:
        node = nodes.node(1)
        node.stop.asked = True
        # The third node is missing, so node 0 still waits.
        with pytest.raises(TryAgainError, match="asked to stop before the segment began"):
            group.wait_for_nodes()
        assert not (nodes.paths.control / "stop").exists()
    node.join()


def test_a_stop_of_a_node_during_a_segment_asks_the_training_to_save_and_end(nodes: LocalNodes) -> None:
    nodes.program = "import time; time.sleep(600)"
    stop = nodes.paths.control / "stop"
    with nodes.group() as group:
        node = nodes.node()
        group.wait_for_nodes()
        with group.segment(1, {}):
            node.stop.asked = True
            wait_for(stop.exists)
        assert stop.read_text() == BY_SIGNAL
    node.join()


def test_a_stop_file_ends_the_wait_for_nodes(nodes: LocalNodes) -> None:
    with nodes.group() as group:
        stop = nodes.paths.control / "stop"
        stop.touch()
        with pytest.raises(TryAgainError, match="asked to stop"):
            group.wait_for_nodes()
        assert not stop.exists()


def test_missing_nodes_are_named_after_the_longest_wait(nodes: LocalNodes) -> None:
    nodes.place = replace(nodes.place, nodes=4, wait_minutes=0)
    with nodes.group() as group:
        node = nodes.node(2, wait_minutes=1)
        wait_for(lambda: "1, 3" in group._missing())
        with pytest.raises(TryAgainError, match="nodes 1, 3 of 4 did not join within 0 minutes"):
            group.wait_for_nodes()
    node.join()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nodes": 3}, r"another number of nodes \(--nodes\) than node 0: 3, and node 0 has 2"),
        ({"ranks_per_node": 8}, r"another number of processes \(--ranks-per-node\) than node 0: 8, and node 0 has 1"),
        ({"segment": 4}, r"another segment \(--number\) than node 0: 4, and node 0 has all"),
        ({"configuration": "x"}, "reads another configuration of the training"),
        ({"rank": 5}, "node rank 5 does not exist"),
    ],
)
def test_a_node_with_other_options_than_node_0_is_refused(
    nodes: LocalNodes, changes: dict[str, object], reason: str
) -> None:
    with nodes.group():
        node = nodes.node(**changes)
        node.join()
    with pytest.raises(ConfigError, match=reason):
        raise node.error or AssertionError("the node was accepted")


def test_a_node_with_another_version_is_refused(nodes: LocalNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    with nodes.group() as group:
        before = bloomery.__version__
        monkeypatch.setattr(bloomery, "__version__", "9.9")
        # Node 0 reads its version when a node joins. The message of the node was made with the version before.
        monkeypatch.setattr("training.nodes.follow.bloomery", type("Old", (), {"__version__": before}))
        node = nodes.node()
        node.join()
        assert group._missing() == "node 1"
    assert f"version of Bloomery than node 0: {before}, and node 0 has 9.9" in str(node.error)


def test_a_node_that_sees_another_run_folder_is_refused(nodes: LocalNodes, tmp_path: Path) -> None:
    other = LocalNodes(tmp_path / "other", pytest.MonkeyPatch())
    with other.group():
        pass
    with nodes.group():
        node = nodes.node(run=tmp_path / "other")
        node.join()
    with pytest.raises(ConfigError, match="this node sees another run folder than node 0"):
        raise node.error or AssertionError("the node was accepted")


def test_a_second_process_with_the_same_rank_waits_until_the_first_has_left(nodes: LocalNodes) -> None:
    with nodes.group() as group:
        first = nodes.node()
        group.wait_for_nodes()
        second = nodes.node()
        taken = group._nodes[1]
        taken.link.close()
        # The first node comes back too, so one of the two takes part and the other one waits.
        wait_for(lambda: 1 in group._nodes and group._nodes[1] is not taken)
    for node in (first, second):
        node.stop.asked = True
        node.join()
        assert node.error is None or isinstance(node.error, TryAgainError)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n\r\n", b'{"kind": "start"}\n', b"\xff" * 70_000, b""])
def test_a_stranger_on_the_port_does_not_disturb_the_nodes(nodes: LocalNodes, line: bytes) -> None:
    with nodes.group() as group, socket.create_connection(("127.0.0.1", nodes.place.master_port)) as stranger:
        stranger.sendall(line)
        node = nodes.node()
        group.wait_for_nodes()
        with group.segment(1, {}):
            pass
    node.join()
    assert node.error is None


def test_a_port_in_use_is_named(nodes: LocalNodes) -> None:
    port = ("127.0.0.1", nodes.place.master_port)
    with socket.create_server(port), pytest.raises(ResourceError) as refused, nodes.group():
        pass
    assert refused.value.where == f"port {nodes.place.master_port}"


def test_the_key_of_the_run_folder_is_readable_by_the_owner_only_and_stays_the_same(nodes: LocalNodes) -> None:
    keys = []
    for _ in range(2):
        with nodes.group():
            keys.append((nodes.paths.control / ".nodes-key").read_bytes())
    assert keys[0] == keys[1]
    assert len(keys[0]) == 64
    assert (nodes.paths.control / ".nodes-key").stat().st_mode & 0o077 == 0
    assert [path.name for path in nodes.paths.control.iterdir()] == [".nodes-key"]
