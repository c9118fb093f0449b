"""Compute the shares of a mixture from sizes. No files are read.

Let size(l) be the bytes of language l. Before any cap, the share of l is proportional to

    alpha     size(l) ** alpha: XLM, section 3.1 (Conneau and Lample 2019, arXiv:1901.07291); BLOOM trained with alpha 1
    unimax    1, the same for every language (Chung et al. 2023, arXiv:2304.09151); useful only with a cap
    explicit  the weight of l in the configuration

An explicit weight replaces the share that alpha or unimax would give. With a cap of N epochs, a language gets at most
N * size(l) of a budget of B bytes. The bytes cut off go to the other languages in proportion to their shares:

    part(l) = min(N * size(l), level * share(l)),   with the level for which the parts sum to B.

For equal shares this is UniMax's algorithm, which processes languages from the smallest to the largest. If N epochs of
all text are less than B, every language is at its cap, and parts are proportional to sizes. Training would then have to
repeat text more than N times. The index knows the number of tokens and raises an error in this case
(`data_prep/index/plan_blend_stages.py`).
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
    """Divide `budget` in proportion to the positive `shares`, with no part above its limit. See the module docstring.

    The result is exact and does not depend on the order of names. The parts sum to the budget, or to the sum of the
    limits if that is less.
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
    """Return the weight of each language with text, sorted by code. The weights sum to 1. See the module docstring.

    Args:
        sizes: bytes per language.
        config: method, explicit weights and cap.
        budget: bytes that the training reads. Without a budget the cap has no effect.

    Raises:
        InputError: an explicit weight above 0 names a language without text, `method: explicit` lacks a language, or
            no language has a weight above 0.
    """
    _refuse_absent(sizes, config)
    wanted = _wanted({code: size for code, size in sorted(sizes.items()) if size}, config)
    total = math.fsum(wanted.values())
    if not total:
        raise InputError(
            "no language has a weight above 0",
            where="corpus.mixture",
            expected="at least one language with text and a weight above 0 (corpus.mixture.weights, sources[].weight)",
        )
    if config.max_epochs is None or budget is None:
        return {code: share / total for code, share in wanted.items()}
    limits = {code: Fraction(config.max_epochs) * sizes[code] for code in wanted}
    parts = fill({code: share for code, share in wanted.items() if share > 0}, budget, limits)
    read = sum(parts.values())
    return {code: float(parts.get(code, Fraction(0)) / read) for code in wanted}


def _refuse_absent(sizes: Mapping[str, int], config: MixtureConfig) -> None:
    """Raise InputError if a weight above 0 names a language without text, or if `method: explicit` lacks a language."""
    absent = sorted(code for code, weight in config.weights.items() if weight > 0 and not sizes.get(code))
    if absent:
        raise InputError(
            f"the clean corpus has no document in these languages: {', '.join(absent)}",
            where="corpus.mixture.weights",
            expected=f"weights only for the languages of the corpus: {', '.join(sorted(sizes)) or 'there are none'}",
        )
    unsaid = sorted(code for code, size in sizes.items() if size and code not in config.weights)
    if config.method == "explicit" and unsaid:
        raise InputError(
            f"there is no weight for these languages: {', '.join(unsaid)}",
            where="corpus.mixture.weights",
            expected="a weight for every language of the corpus (0 excludes the language), or another"
            " corpus.mixture.method",
        )


def _wanted(sizes: Mapping[str, int], config: MixtureConfig) -> dict[str, float]:
    """Return the relative share of each language before any cap. All `sizes` must be positive."""
    raw = {code: 1.0 if config.method == "unimax" else size**config.alpha for code, size in sizes.items()}
    total = math.fsum(raw.values())
    return {code: config.weights.get(code, value / total) for code, value in raw.items()}
