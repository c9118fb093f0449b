"""What one rank found out, known to all: no rank may go on, or fail, alone while the others wait in a collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from bloomery.base.atomic import known_error
from bloomery.base.errors import BloomeryError, ResourceError

Answer = TypeVar("Answer")


def from_rank_0(compute: Callable[[], Answer]) -> Answer:
    """Rank 0 computes; every rank returns its answer, or raises its error. Collective.

    Raises:
        BloomeryError: of the kind that rank 0 raised.
        ResourceError, TryAgainError: rank 0 had an `OSError` (`bloomery.base.atomic.known_error`).
    """
    told = [_outcome(compute) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told, src=0)
    (answer,) = _answers(told)
    return answer  # type: ignore[no-any-return]


def from_every_rank(compute: Callable[[], Answer]) -> list[Answer]:
    """Every rank computes; every rank returns all answers in the order of ranks, or raises the first error. Collective.

    Raises:
        BloomeryError, ResourceError, TryAgainError: as in `from_rank_0`, of the first rank that had an error.
    """
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, _outcome(compute))
    return _answers(told)


def _outcome(compute: Callable[[], Any]) -> tuple[Any, tuple[Any, ...] | None]:
    """What `compute` answered and, of its error, what can be sent to other ranks."""
    try:
        return compute(), None
    except BloomeryError as error:
        known = error
    except OSError as error:
        known = known_error(error) or ResourceError(error.strerror or str(error), where=error.filename)
    return None, (type(known), known.what, known.where, known.expected)


def _answers(told: list[Any]) -> list[Any]:
    for _, problem in told:
        if problem is not None:
            kind, what, where, expected = problem
            raise kind(what, where=where, expected=expected)
    return [answer for answer, _ in told]
