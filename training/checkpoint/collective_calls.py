"""Share an answer or an error among all ranks.

No rank may continue or fail alone, because the others would wait for it in a collective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from bloomery.base.atomic import known_error
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError, ResourceError

Answer = TypeVar("Answer")


def from_rank_0(compute: Callable[[], Answer]) -> Answer:
    """Call `compute` on rank 0. Return its answer, or raise its error, on every rank. Collective.

    Raises:
        BloomeryError: `compute` raised it. Every rank raises the same subclass.
        ResourceError, TryAgainError: `compute` raised an `OSError` (`bloomery.base.atomic.known_error`).
    """
    told = [_outcome(compute) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told, src=0)
    (answer,) = _answers(told)
    return answer  # type: ignore[no-any-return]


def from_every_rank(compute: Callable[[], Answer]) -> list[Answer]:
    """Call `compute` on every rank. Return all answers in the order of ranks on every rank. Collective.

    Raises:
        BloomeryError, ResourceError, TryAgainError: as in `from_rank_0`. If several ranks fail, every rank raises the
            error of the lowest failed rank.
    """
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, _outcome(compute))
    return _answers(told)


def damage_on_any_rank(check: Callable[[], object]) -> str | None:
    """Call `check` on every rank. Return the first damage that a rank found, or None, on every rank. Collective.

    A `CheckFailedError` or an `InputError` of `check` means that the checked data are damaged.

    Raises:
        BloomeryError, ResourceError, TryAgainError: `check` raised another error on some rank, as in `from_every_rank`.
            The data may then be intact, so this error takes precedence over damage on other ranks.
    """

    def damage() -> str | None:
        try:
            check()
        except (CheckFailedError, InputError) as error:
            return str(error)
        return None

    return next((found for found in from_every_rank(damage) if found is not None), None)


def _outcome(compute: Callable[[], Any]) -> tuple[Any, tuple[Any, ...] | None]:
    """Call `compute`. Return (answer, None), or (None, type and arguments of the error), to send to other ranks."""
    try:
        return compute(), None
    except BloomeryError as error:
        known = error
    except OSError as error:
        known = known_error(error) or ResourceError(error.strerror or str(error), where=error.filename)
    return None, (type(known), known.what, known.where, known.expected)


def _answers(told: list[Any]) -> list[Any]:
    """Return the answers of all outcomes, or raise the first error among them."""
    for _, problem in told:
        if problem is not None:
            kind, what, where, expected = problem
            raise kind(what, where=where, expected=expected)
    return [answer for answer, _ in told]
