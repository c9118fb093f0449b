"""Tensors that all blocks of a rank share, such as ALiBi's bias: made once for a length, constants to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def shared(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, whose arguments are hashable, keeping its last two results: training's and another length's.

    Nobody may write into a result.
    """
    kept: Callable[..., T] = lru_cache(maxsize=2)(make)

    @wraps(make)
    def get(*arguments: P.args, **options: P.kwargs) -> T:
        return kept(*arguments, **options)

    # The compiler names a constant after the code that made it, and refuses two of a name in one graph.
    get.__code__ = get.__code__.replace(co_name=make.__name__)  # type: ignore[attr-defined]
    # It would look through the cache alone and make the tensor again in each block.
    return torch.compiler.assume_constant_result(get)  # type: ignore[no-any-return,no-untyped-call]
