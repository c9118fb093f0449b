"""Test the verb `bloomery nodes`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_line import bloomery

pytestmark = pytest.mark.slow

Nodes = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs/test"
    (folder / "config").mkdir(parents=True)
    (folder / "config/parts.json").write_text("{}")
    return folder


@pytest.fixture
def nodes(run: Path, tmp_path: Path) -> Nodes:
    """Return a function that calls the verb on a cluster with the nodes node1, node2 and node3."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, printed in (("squeue", ""), ("sinfo", "".join(f"node{n} idle main*\\n" for n in (1, 2, 3)))):
        (programs / name).write_text(f"#!/bin/sh\nprintf '{printed}'\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def call(verb: str, *arguments: str, expect: int = 0) -> Any:
        done = bloomery("nodes", verb, "--run", str(run), *arguments, "--json", env=environment)
        assert done.returncode == expect, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    return call


def test_a_node_is_excluded_listed_and_included_again(nodes: Nodes) -> None:
    assert nodes("list") == []
    (added,) = nodes("exclude", "node2", "--hours", "2", "--reason", "broken fan")
    assert (added["host"], added["by"], added["reason"]) == ("node2", "person", "broken fan")
    since, until = (datetime.fromisoformat(added[key]) for key in ("since", "until"))
    assert until - since == timedelta(hours=2)
    assert nodes("list") == [added]
    assert nodes("include", "node2") == [added]
    assert nodes("list") == []


def test_a_node_that_slurm_does_not_know_is_refused(nodes: Nodes) -> None:
    said = nodes("exclude", "node2", "node9", expect=1)
    assert "node9: SLURM knows no node of this name" in said
    assert nodes("list") == []


def test_a_node_that_is_not_excluded_cannot_be_included(nodes: Nodes) -> None:
    nodes("exclude", "node1", "node3")
    said = nodes("include", "node2", expect=1)
    assert "node2: this node is not excluded; expected: one of node1, node3" in said


def test_people_read_a_table(run: Path, nodes: Nodes) -> None:
    nodes("exclude", "node1", "--reason", "slow")
    done = bloomery("nodes", "list", "--run", str(run))
    assert done.stdout.startswith("node1\t20")
    assert done.stdout.endswith("Z\tperson\tslow\n")
    nodes("include", "node1")
    done = bloomery("nodes", "list", "--run", str(run))
    assert (done.stdout, done.stderr) == ("", "no node is excluded\n")
