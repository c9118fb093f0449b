"""Test that the ranks for which the others wait are found from their counts of communications."""

from __future__ import annotations

from heartbeats import group, heartbeat, receive, send

from bloomery.contracts.heartbeat import Place
from bloomery.detect.waiting_ranks import awaited_ranks


def test_the_rank_that_has_not_entered_a_collective_is_awaited() -> None:
    inside = {rank: heartbeat(rank, call=group(8, 0, 1, 2), channels=(group(8, 0, 1, 2),)) for rank in (0, 2)}
    assert awaited_ranks({**inside, 1: heartbeat(1, channels=(group(7, 0, 1, 2),))}, range(3)) == (1,)


def test_a_chain_of_waiting_ranks_ends_at_the_cause() -> None:
    """Ranks 0 and 1 are the first stage, 2 and 3 the second. Rank 3 hangs in a forward pass."""
    first, second = group(5, 0, 1), group(6, 2, 3)
    beats = {
        0: heartbeat(0, call=receive(3, 2, 0), channels=(first, send(3, 0, 2), receive(3, 2, 0))),
        1: heartbeat(1, call=receive(3, 3, 1), channels=(first, send(3, 1, 3), receive(3, 3, 1))),
        2: heartbeat(2, call=second, channels=(second, receive(3, 0, 2), send(2, 2, 0))),
        3: heartbeat(3, channels=(group(5, 2, 3), receive(3, 1, 3), send(2, 3, 1))),
    }
    assert awaited_ranks(beats, range(4)) == (3,)


def test_a_message_that_nobody_has_received_yet_does_not_hide_the_cause() -> None:
    """Rank 0 hangs after a send that returned at once. Rank 1 waits for rank 2, which waits for rank 0."""
    beats = {
        0: heartbeat(0, channels=(send(5, 0, 1), group(1, 0, 2))),
        1: heartbeat(1, call=group(2, 1, 2), channels=(receive(4, 0, 1), group(2, 1, 2))),
        2: heartbeat(2, call=group(2, 0, 2), channels=(group(2, 0, 2), group(1, 1, 2))),
    }
    assert awaited_ranks(beats, range(3)) == (0,)


def test_calls_that_return_at_once_are_compared_by_their_numbers() -> None:
    """With NCCL, no rank is inside of a call, and ranks that wait for their device have begun further calls."""
    ahead = {rank: heartbeat(rank, channels=(group(9, 0, 1, 2),)) for rank in (0, 1)}
    assert awaited_ranks({**ahead, 2: heartbeat(2, channels=(group(6, 0, 1, 2),))}, range(3)) == (2,)


def test_several_equal_causes_are_all_returned() -> None:
    inside = heartbeat(1, call=group(4, 0, 1, 2, 3), channels=(group(4, 0, 1, 2, 3),))
    beats = {1: inside, 0: heartbeat(0), 3: heartbeat(3)}
    assert awaited_ranks(beats, range(4)) == (0, 2, 3), "rank 2 has written no record"


def test_all_ranks_are_returned_if_all_of_them_are_in_the_same_collective() -> None:
    beats = {rank: heartbeat(rank, call=group(4, 0, 1), channels=(group(4, 0, 1),)) for rank in (0, 1)}
    assert awaited_ranks(beats, range(2)) == (0, 1)


def test_a_rank_that_has_ended_is_not_the_cause() -> None:
    beats = {0: heartbeat(0, place=Place.ENDED), 1: heartbeat(1, call=group(2, 0, 1), channels=(group(2, 0, 1),))}
    assert awaited_ranks(beats, range(2)) == (1,)
