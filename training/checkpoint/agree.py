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
    told: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            told[0] = compute()
        except BloomeryError as error:
            told[1] = _parts(error)
        except OSError as error:
            told[1] = _parts(known_error(error) or ResourceError(error.strerror or str(error), where=error.filename))
    dist.broadcast_object_list(told, src=0)
    if told[1] is not None:
        kind, what, where, expected = told[1]
        raise kind(what, where=where, expected=expected)
    answer: Answer = told[0]
    return answer


def _parts(error: BloomeryError) -> tuple[Any, ...]:
    return type(error), error.what, error.where, error.expected


def from_every_rank(value: Answer) -> list[Answer]:
    """The value of each rank, on every rank. Collective."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
