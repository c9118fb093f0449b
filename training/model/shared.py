"""Cache tensors that all blocks of a rank share, such as ALiBi's bias. The compiler treats the tensors as constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def shared(make: Callable[P, T]) -> Callable[P, T]:
    """Cache the last two results of `make`, such as one for the full sequence length and one for a different length.

    The arguments of `make` must be hashable. Callers must not modify a result in place.
    """
    kept: Callable[..., T] = lru_cache(maxsize=2)(make)

    @wraps(make)
    def get(*arguments: P.args, **options: P.kwargs) -> T:
        return kept(*arguments, **options)

    # The compiler names a constant after the code object that created it, and rejects duplicate names in a graph.
    get.__code__ = get.__code__.replace(co_name=make.__name__)  # type: ignore[attr-defined]
    # Otherwise the compiler would trace through the cache and create the tensor again in each block.
    return torch.compiler.assume_constant_result(get)  # type: ignore[no-any-return,no-untyped-call]
