"""Test the counts of communications on real ranks."""

from __future__ import annotations

from typing import Any

import pytest
from ranks import run_ranks

from bloomery.contracts.heartbeat import Route

pytestmark = pytest.mark.distributed


def count_on_rank() -> dict[str, Any]:
    """Communicate in several ways. Return the counts and what the rank was in during an all-reduce."""
    import torch
    import torch.distributed as dist

    from training.parallel.count_calls import CallCounter

    inside = []
    counter = CallCounter(lambda: inside.append(counter.current()))
    counter.install()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pair = dist.new_group([0, 2])
    value = torch.ones(4)
    dist.all_reduce(value)
    noted = list(inside)
    dist.broadcast(value, 0, group=None)
    dist.distributed_c10d.barrier()
    told = [None] * 3
    dist.all_gather_object(told, rank)  # it calls all_gather twice
    if rank != 1:
        dist.all_reduce(value, dist.ReduceOp.SUM, pair)
        dist.broadcast(value, 2, pair)
    if rank == 0:
        dist.send(value, 1)
        dist.isend(value, dst=1).wait()
    elif rank == 1:
        dist.recv(value, 0)
        dist.irecv(value, src=0).wait()
    found = {(each.route, each.ranks): each.calls for each in counter.channels()}
    return {"told": told, "counts": found, "inside": noted, "after": counter.current()}


def test_each_rank_counts_its_calls_by_group_and_by_pair() -> None:
    answers = run_ranks(count_on_rank, 3)
    everyone, pair = (Route.GROUP, (0, 1, 2)), (Route.GROUP, (0, 2))
    assert [answer["counts"] for answer in answers] == [
        {everyone: 4, pair: 2, (Route.SEND, (0, 1)): 2},
        {everyone: 4, (Route.RECEIVE, (0, 1)): 2},
        {everyone: 4, pair: 2},
    ]
    for answer in answers:
        assert answer["told"] == [0, 1, 2]
        begun, ended = answer["inside"]
        assert (begun.route, begun.ranks, begun.calls) == (*everyone, 1)
        assert ended is None
        assert answer["after"] is None
