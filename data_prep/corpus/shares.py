"""Shares of a mixture: arithmetic on sizes, no files.

Let size(l) be the bytes of language l. Its share before any cap is in proportion to

    alpha     size(l) ** alpha: XLM, section 3.1 (Conneau and Lample 2019, arXiv:1901.07291); BLOOM trained with alpha 1
    unimax    1: the same for each (Chung et al. 2023, arXiv:2304.09151), which only a cap makes sense of
    explicit  what the configuration says

and an explicit weight takes the place of the share that alpha or unimax would give. A cap of N epochs then bounds a
language's part of a budget of B bytes by N * size(l); what it cuts off goes to the other languages in proportion to
their shares:

    part(l) = min(N * size(l), level * share(l)),   level such that the parts sum to B.

For equal shares this is UniMax's algorithm, which walks the languages from the smallest up. When N epochs of all the
text are less than B, every language is at its cap: parts are then in proportion to sizes, and the training would have
to repeat more than N times; the index, which knows tokens, refuses that (`data_prep/index/mixture_use.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from bloomery.base.errors import InputError
from bloomery.config.corpus import MixtureConfig


def fill(
    shares: Mapping[str, float], budget: int | Fraction, limits: Mapping[str, int | Fraction]
) -> dict[str, Fraction]:
    """`budget` divided in proportion to `shares` (all positive), no part above its limit: see the module.

    Exact, and independent of the order of names. The parts sum to the budget, or to all limits where that is less.
    """
    exact = {name: Fraction(share) for name, share in shares.items()}
    left, sharing = Fraction(budget), sum(exact.values(), Fraction(0))
    parts = {}
    for name in sorted(exact, key=lambda name: (Fraction(limits[name]) / exact[name], name)):
        parts[name] = min(Fraction(limits[name]), left * exact[name] / sharing)
        left -= parts[name]
        sharing -= exact[name]
    return {name: parts[name] for name in sorted(parts)}


def weights(sizes: Mapping[str, int], config: MixtureConfig, budget: int | None = None) -> dict[str, float]:
    """Weight per language with text, sorted by code, summing to 1: see the module.

    Args:
        sizes: bytes per language.
        config: method, explicit weights, cap.
        budget: bytes that the training reads; must be there when the configuration has a cap.

    Raises:
        InputError: an explicit weight above 0 for a language without text, a language without any weight, no language.
    """
    _refuse_absent(sizes, config)
    wanted = _wanted({code: size for code, size in sorted(sizes.items()) if size}, config)
    total = math.fsum(wanted.values())
    if not total:
        raise InputError(
            "no language has any weight",
            where="corpus.mixture",
            expected="text, and a weight above 0 (corpus.mixture.weights, sources[].weight)",
        )
    if config.max_epochs is None or budget is None:
        return {code: share / total for code, share in wanted.items()}
    limits = {code: Fraction(config.max_epochs) * sizes[code] for code in wanted}
    parts = fill({code: share for code, share in wanted.items() if share > 0}, budget, limits)
    read = sum(parts.values())
    return {code: float(parts.get(code, Fraction(0)) / read) for code in wanted}


def _refuse_absent(sizes: Mapping[str, int], config: MixtureConfig) -> None:
    """Explicit weights speak of languages of the corpus, and with `method: explicit` of all of them."""
    absent = sorted(code for code, weight in config.weights.items() if weight > 0 and not sizes.get(code))
    if absent:
        raise InputError(
            f"no clean document in {', '.join(absent)}",
            where="corpus.mixture.weights",
            expected=f"languages of the corpus: {', '.join(sorted(sizes)) or 'it is empty'}",
        )
    unsaid = sorted(code for code, size in sizes.items() if size and code not in config.weights)
    if config.method == "explicit" and unsaid:
        raise InputError(
            f"no weight for {', '.join(unsaid)}",
            where="corpus.mixture.weights",
            expected="a weight for every language of the corpus (0 leaves one out), or another corpus.mixture.method",
        )


def _wanted(sizes: Mapping[str, int], config: MixtureConfig) -> dict[str, float]:
    """Relative shares before any cap; `sizes` positive."""
    raw = {code: 1.0 if config.method == "unimax" else size**config.alpha for code, size in sizes.items()}
    total = math.fsum(raw.values())
    return {code: config.weights.get(code, value / total) for code, value in raw.items()}
