"""Test that a node waits for node 0, survives the loss of node 0, and never outlives a finished training."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from local_nodes import LocalNodes
from waiting import wait_for

from bloomery.base.errors import TryAgainError
from training.nodes import follow


def test_a_node_kills_its_processes_when_node_0_is_lost_and_joins_the_next_node_0(
    nodes: LocalNodes, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    nodes.program = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    node = nodes.node()
    with nodes.group() as group:
        group.wait_for_nodes()
        with group.segment(1, {}):
            wait_for(lambda: mark.exists() and mark.read_text())
            # A node 0 that is killed closes its connections without a message.
            group._nodes[1].link.close()
            wait_for(lambda: not psutil.pid_exists(int(mark.read_text())))
            assert "node 1" in str(group._failure)
            assert "is lost" in str(group._failure)
        nodes.program = "pass"
        group.wait_for_nodes()
        with group.segment(2, {}):
            pass
    node.join()
    assert node.error is None


def test_a_node_that_does_not_find_node_0_gives_up_after_the_longest_wait(nodes: LocalNodes) -> None:
    node = nodes.node(wait_minutes=0)
    node.join()
    with pytest.raises(TryAgainError, match=r"cannot join node 0 within 0 minutes .*Connection refused"):
        raise node.error or AssertionError("the node found node 0")


def test_a_node_that_waits_ends_on_a_stop(nodes: LocalNodes) -> None:
    node = nodes.node()
    node.stop.asked = True
    node.join()
    assert isinstance(node.error, TryAgainError)


@pytest.mark.parametrize("newer", [True, False])
def test_a_node_that_starts_after_the_end_ends_only_if_the_configuration_has_not_changed_since(
    nodes: LocalNodes, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    monkeypatch.setattr(follow, "_ENDED_SECONDS", 0.0)
    config, now = nodes.paths.config / "train.json", time.time()
    for path, age in ((config, 100), (nodes.paths.finished, 50 if newer else 150)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (now - age, now - age))
    node = nodes.node(wait_minutes=0.01)
    node.join()
    assert (node.error is None) == newer


def test_a_node_waits_while_the_key_of_the_run_folder_is_not_visible(nodes: LocalNodes, tmp_path: Path) -> None:
    """A network file system may show a new file to other machines only after some seconds."""
    later = tmp_path / "later"
    with nodes.group() as group:
        node = nodes.node(run=later)
        control = later / "train" / "control"
        control.mkdir(parents=True)
        (control / "key").write_bytes((nodes.paths.control / ".nodes-key").read_bytes())
        assert group._missing() == "node 1"
        (control / "key").rename(control / ".nodes-key")
        group.wait_for_nodes()
    node.join()
    assert node.error is None
