"""Make heartbeats of ranks for tests."""

from __future__ import annotations

from typing import Any

from bloomery.contracts.heartbeat import Channel, Heartbeat, Place, Route


def heartbeat(rank: int, **values: Any) -> Heartbeat:
    """Return the record of a rank that trains iteration 5, with other values where they are given."""
    usual: dict[str, Any] = {
        "host": f"node{rank}",
        "pid": 100 + rank,
        "launch": "a",
        "segment": 1,
        "iteration": 5,
        "place": Place.ITERATION,
        "beat": 3,
        "progress": 7,
        "idle_seconds": 0.5,
        "allowed_seconds": 65.0,
        "time": "2026-01-31T12:00:00Z",
    }
    return Heartbeat(rank=rank, **{**usual, **values})


def group(calls: int, *ranks: int) -> Channel:
    """Return the channel of a group of ranks."""
    return Channel(route=Route.GROUP, ranks=ranks, calls=calls)


def send(calls: int, sender: int, receiver: int) -> Channel:
    """Return the sender's end of a channel."""
    return Channel(route=Route.SEND, ranks=(sender, receiver), calls=calls)


def receive(calls: int, sender: int, receiver: int) -> Channel:
    """Return the receiver's end of a channel."""
    return Channel(route=Route.RECEIVE, ranks=(sender, receiver), calls=calls)
