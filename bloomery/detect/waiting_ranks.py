"""Find the ranks for which all other ranks of a hung training wait.

In a hang, almost every rank waits in a communication for another rank. Each rank counts the operations that it began
on each channel (a group, or a pair of ranks). All ranks of a group begin the same operations in the same order. So a
rank that has begun more operations than another rank of the group waits for that rank. The ranks that wait for no other
rank are the cause of the hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bloomery.contracts.heartbeat import Channel, Heartbeat, Place, Route

_OPPOSITE = {Route.GROUP: Route.GROUP, Route.SEND: Route.RECEIVE, Route.RECEIVE: Route.SEND}


def awaited_ranks(beats: Mapping[int, Heartbeat], ranks: Iterable[int]) -> tuple[int, ...]:
    """Return the ranks for which the other ranks wait, in ascending order.

    If the counts do not show such ranks, return the ranks that are in no communication, or all ranks if every rank is
    in one. An example is a network operation that all ranks have begun and that hangs.

    Args:
        beats: newest record of each rank that has written one.
        ranks: all ranks of the training. A rank without a record has begun no operation.
    """
    present = [rank for rank in ranks if rank not in beats or beats[rank].place is not Place.ENDED]
    waits_for = {rank: _waits_for(rank, beats) & {*present} - {rank} for rank in present}
    awaited = {other for others in waits_for.values() for other in others}
    causes = [rank for rank in present if rank in awaited and not waits_for[rank]]
    free = [rank for rank in present if rank not in beats or beats[rank].call is None]
    # A sender may continue before its message is received, so it seems to wait although it does not. Such ranks can
    # form a cycle with the ranks that wait for them.
    return tuple(sorted(causes or [rank for rank in free if rank in awaited] or free or present))


def _waits_for(rank: int, beats: Mapping[int, Heartbeat]) -> set[int]:
    """Return the ranks that have begun fewer operations than `rank` on a channel that they share with it."""
    if (beat := beats.get(rank)) is None:
        return set()
    # A rank that is inside a call waits only for this call.
    channels = beat.channels if beat.call is None else (beat.call,)
    return {
        other
        for channel in channels
        for other in channel.ranks
        if other != rank and _calls(beats.get(other), channel) < channel.calls
    }


def _calls(beat: Heartbeat | None, channel: Channel) -> int:
    """Return the number of operations that a rank has begun at its end of `channel`."""
    if beat is None:
        return 0
    route = _OPPOSITE[channel.route]
    return next((own.calls for own in beat.channels if (own.route, own.ranks) == (route, channel.ranks)), 0)
