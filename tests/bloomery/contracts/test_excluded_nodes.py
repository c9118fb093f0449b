"""Test the list of excluded nodes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from bloomery.contracts.excluded_nodes import exclude_node, include_node, most_excluded, read_excluded
from bloomery.contracts.paths import RunPaths

NOW = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)


def test_an_exclusion_ends_after_its_time(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert read_excluded(paths, NOW) == []
    added = exclude_node(paths, "node3", "slow", 2, "preflight", NOW)
    assert read_excluded(paths, NOW + timedelta(minutes=119)) == [added]
    assert read_excluded(paths, NOW + timedelta(hours=2)) == []


def test_a_new_exclusion_replaces_that_of_the_same_node_and_drops_ended_ones(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    exclude_node(paths, "node1", "ended", 1, "preflight", NOW)
    exclude_node(paths, "node2", "before", 24, "preflight", NOW)
    later = NOW + timedelta(hours=3)
    exclude_node(paths, "node2", "again", 24, "person", later)
    assert [(node.host, node.reason, node.by) for node in read_excluded(paths, later)] == [("node2", "again", "person")]
    assert "ended" not in paths.excluded_nodes.read_text()
    assert '"until": "2026-02-01T15:00:00Z"' in paths.excluded_nodes.read_text()


def test_a_node_is_included_again(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    added = exclude_node(paths, "node1", "slow", 24, "person", NOW)
    assert include_node(paths, "node2", NOW) is None
    assert include_node(paths, "node1", NOW) == added
    assert read_excluded(paths, NOW) == []


@pytest.mark.parametrize("name", ["", "node[1-3]", "a,b", "node1 --wrap=x", "-n", "a;b", "a\n"])
def test_a_name_that_could_change_the_command_line_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="not the name of a node"):
        exclude_node(RunPaths(tmp_path), name, "x", 1, "person", NOW)


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59-23:59", "2026-01-31T12:00:00", "tomorrow", None])
def test_an_end_that_is_not_a_valid_time_is_refused(tmp_path: Path, until: str | None) -> None:
    paths = RunPaths(tmp_path)
    exclude_node(paths, "node1", "slow", 24, "person", NOW)
    content = json.loads(paths.excluded_nodes.read_text())
    content["nodes"][0]["until"] = until
    paths.excluded_nodes.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"not a list of excluded nodes: nodes\[0\].until"):
        read_excluded(paths, NOW)


@pytest.mark.parametrize(
    "content", ['{"nodes": [{"host": "a b"}]}', '{"format": 2}', "[]", '{"nodes": [{"host": "a", "until": 5}]}']
)
def test_a_damaged_list_is_refused(tmp_path: Path, content: str) -> None:
    paths = RunPaths(tmp_path)
    paths.train.mkdir()
    paths.excluded_nodes.write_text(content)
    with pytest.raises(InputError, match="not a list of excluded nodes"):
        read_excluded(paths, NOW)


def test_the_limit_is_five_percent_and_at_least_one_node() -> None:
    assert [most_excluded(None, nodes) for nodes in (1, 19, 20, 48, 100)] == [1, 1, 1, 2, 5]
    assert most_excluded(0, 100) == 0


def test_processes_that_exclude_nodes_at_the_same_time_lose_no_exclusion(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    names = [f"node{number}" for number in range(20)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: exclude_node(paths, name, "slow", 1, "person", NOW), names))
    assert sorted(node.host for node in read_excluded(paths, NOW)) == sorted(names)
