"""The back ends of attention: all compute the same within the rounding of their type."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from training.model.attention import eager, flash, flex, sdpa
from training.model.attention.heads import Attend, Heads

BACK_ENDS: dict[str, Callable[[Heads], Attend]] = {
    "eager": eager.build,
    "sdpa": sdpa.build,
    "flex": flex.build,
    "flash": flash.build,
}
"""By the values of `training.kernels.attention`; `bloomery.spec.choose_kernels` chooses."""


@lru_cache(maxsize=8)
def back_end(name: str, heads: Heads) -> Attend:
    """The back end `name` for `heads`: the same function for each block, so that the compiler meets it once."""
    return BACK_ENDS[name](heads)
