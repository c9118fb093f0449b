"""The table of attention back ends. All back ends compute the same result up to rounding."""

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
"""Back ends by value of `training.kernels.attention`. `bloomery.spec.choose_kernels` resolves the value `auto`."""


@lru_cache(maxsize=8)
def back_end(name: str, heads: Heads) -> Attend:
    """Build the back end `name` for `heads`. All blocks get the same function, so that it is compiled only once."""
    return BACK_ENDS[name](heads)
