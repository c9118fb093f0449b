"""What one rank found out, known to all: no rank may go on, or fail, alone while the others wait in a collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from bloomery.base.atomic import disk_error
from bloomery.base.errors import BloomeryError, ResourceError

Answer = TypeVar("Answer")


def from_rank_0(compute: Callable[[], Answer]) -> Answer:
    """Rank 0 computes; every rank returns its answer, or raises its error. Collective.

    Raises:
        BloomeryError: of the kind that rank 0 raised.
        ResourceError, TryAgainError: rank 0 had an `OSError` (`bloomery.base.atomic.disk_error`).
    """
    told: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            told[0] = compute()
        except (BloomeryError, OSError) as error:
            known = error if isinstance(error, BloomeryError) else _of_system(error)
            told[1] = (type(known), known.what, known.where, known.expected)
    dist.broadcast_object_list(told, src=0)
    if told[1] is not None:
        kind, what, where, expected = told[1]
        raise kind(what, where=where, expected=expected)
    answer: Answer = told[0]
    return answer


def _of_system(error: OSError) -> BloomeryError:
    return disk_error(error) or ResourceError(error.strerror or str(error), where=error.filename)


def from_every_rank(value: Answer) -> list[Answer]:
    """The value of each rank, on every rank. Collective."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
