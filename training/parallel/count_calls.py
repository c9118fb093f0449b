"""Count the communications that this rank begins, so that a hang can be traced to the ranks that others wait for.

The functions of `torch.distributed` are replaced by functions that count and then call the original. A call that
another counted call makes is not counted. The counts of all ranks of a group are comparable, because all of them begin
the same operations in the same order. See `bloomery.detect.waiting_ranks`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from bloomery.contracts.heartbeat import Channel, Route

_COLLECTIVES = (
    *("all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "barrier", "scatter", "gather"),
    *("all_gather", "all_gather_into_tensor", "all_gather_coalesced", "all_to_all", "all_to_all_single"),
    *("reduce_scatter", "reduce_scatter_tensor", "broadcast_object_list", "all_gather_object", "gather_object"),
    *("scatter_object_list",),
)
_SENDS, _RECEIVES = ("send", "isend"), ("recv", "irecv")

_Key = tuple[Route, tuple[int, ...]]


class CallCounter:
    """Counts of this rank's communications."""

    def __init__(self, note: Callable[[], None]) -> None:
        """Prepare to count. `note` is called when a communication begins and when it ends."""
        self._note = note
        self._calls: dict[_Key, int] = {}
        self._current: _Key | None = None
        self._ranks: dict[Any, tuple[int, ...]] = {}

    def channels(self) -> tuple[Channel, ...]:
        """Return the counts of all channels of this rank."""
        # Another thread counts meanwhile. `list` copies the items of a dict without interruption.
        return tuple(
            Channel(route=route, ranks=ranks, calls=calls) for (route, ranks), calls in list(self._calls.items())
        )

    def current(self) -> Channel | None:
        """Return the communication in which this rank is at the moment."""
        key = self._current
        return None if key is None else Channel(route=key[0], ranks=key[1], calls=self._calls[key])

    def install(self) -> None:
        """Replace the functions of `torch.distributed`.

        Call this before the process group is created, because DeepSpeed then keeps references to the functions.
        """
        for names, key_of in ((_COLLECTIVES, self._group), (_SENDS, self._send), (_RECEIVES, self._receive)):
            for name in names:
                if (original := getattr(dist, name, None)) is not None:
                    counted = self._counted(original, key_of)
                    setattr(dist, name, counted)
                    setattr(dist.distributed_c10d, name, counted)

    def _counted(self, original: Callable[..., Any], key_of: Callable[..., _Key | None]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*arguments: Any, **named: Any) -> Any:
            # Only one thread of a rank communicates at a time: the main thread, or autograd's while the main one waits.
            if self._current is not None or (key := key_of(*arguments, **named)) is None:
                return original(*arguments, **named)
            self._calls[key] = self._calls.get(key, 0) + 1
            self._current = key
            self._note()
            try:
                return original(*arguments, **named)
            finally:
                self._current = None
                self._note()

        return run

    def _members(self, group: Any) -> tuple[int, ...] | None:
        """Return the ranks of a group in ascending order. Return None if this rank does not belong to the group."""
        if group is dist.GroupMember.NON_GROUP_MEMBER:
            return None
        # A group that was destroyed must not be confused with a later one, so the dict keeps the group alive.
        if (ranks := self._ranks.get(group)) is None:
            ranks = self._ranks[group] = tuple(sorted(dist.get_process_group_ranks(group)))
        return ranks

    def _group(self, *arguments: Any, group: Any = None, **_named: Any) -> _Key | None:
        positional = (each for each in arguments if isinstance(each, dist.ProcessGroup))
        members = self._members(group or next(positional, None))
        return None if members is None else (Route.GROUP, members)

    def _send(self, _tensor: Any = None, dst: int | None = None, *_arguments: Any, **_named: Any) -> _Key | None:
        return None if dst is None else (Route.SEND, (dist.get_rank(), dst))

    def _receive(self, _tensor: Any = None, src: int | None = None, *_arguments: Any, **_named: Any) -> _Key | None:
        # A message from any rank names no sender.
        return None if src is None else (Route.RECEIVE, (src, dist.get_rank()))
