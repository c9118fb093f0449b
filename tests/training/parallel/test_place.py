"""Test the place of a process among all processes."""

from __future__ import annotations

import socket

from training.parallel.place import Place, own_place, ranks_of_hosts


def test_the_place_is_read_from_the_variables_of_torchrun_and_slurm() -> None:
    variables = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "SLURMD_NODENAME": "node2"}
    assert own_place(variables) == Place(5, 1, 8, 4, socket.gethostname())


def test_a_process_without_torchrun_is_alone() -> None:
    assert own_place({}) == Place(0, 0, 1, 1, socket.gethostname())


def test_slurm_names_the_node(monkeypatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "node2")
    assert own_place({}).host == "node2"
    assert own_place({}).is_first_of_node


def test_ranks_are_grouped_by_node_in_the_order_of_their_first_ranks() -> None:
    assert ranks_of_hosts(["b", "b", "a", "b"]) == {"b": [0, 1, 3], "a": [2]}
