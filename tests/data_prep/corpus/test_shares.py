"""Test the weights of languages: alpha, UniMax, explicit weights, and the cap on epochs."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from bloomery.config.corpus import MixtureConfig
from data_prep.corpus.shares import fill, weights

SIZES = {"en": 1_000_000, "fr": 10_000, "yo": 100}

# Bytes per language of ROOTS: table 1 of BLOOM's paper (arXiv:2211.05100), with the misprints of ak and ig corrected.
ROOTS_TABLE = """
en 484953009124 zhs 261019433892 fr 208242620434 es 175098365045 code 174700245772 pt 79277543375 ar 74854900600
vi 43709279959 hi 24622119985 id 19972325222 bn 18606823104 ca 17792493289 ta 7989206220 ml 3662571498 te 2993407159
ur 2781329959 ne 2551307393 eu 2360470848 kn 2098453560 mr 1775483122 pa 1572109752 gu 1199986460 or 1157100133
zht 762489150 as 291522098 sw 236482543 yo 89695835 rw 40428299 xh 14304074 ig 14078521 zu 8511561 sn 6638639
lg 4568367 wo 3606973 rn 3272550 fon 2478546 nso 1764506 ln 1650804 tn 1502200 tw 1265041 ny 1187405 st 751034
ts 707634 ak 701554 bm 391747 ki 359615 tum 170360
"""
ROOTS = {code: int(size) for code, size in re.findall(r"(\w+) (\d+)", ROOTS_TABLE)}
ROOTS_BYTES = sum(ROOTS.values())

CORPORA = st.dictionaries(st.text("abcd", min_size=1, max_size=3), st.integers(1, 10**13), min_size=1, max_size=12)
CAPS = st.floats(0.1, 100)
BUDGETS = st.integers(1, 10**14)
METHODS = st.sampled_from(["alpha", "unimax"])


def unimax(sizes: dict[str, int], budget: int, cap: Fraction) -> dict[str, float]:
    """Compute algorithm 1 of Chung et al. 2023 (arXiv:2304.09151), from the smallest language to the largest."""
    left, given = Fraction(budget), {}
    for number, code in enumerate(sorted(sizes, key=lambda code: (sizes[code], code))):
        given[code] = min(left / (len(sizes) - number), cap * sizes[code])
        left -= given[code]
    total = sum(given.values())
    return {code: float(part / total) for code, part in given.items()}


def capped(sizes: dict[str, int], method: str, cap: float, budget: int, **more: object) -> dict[str, float]:
    return weights(sizes, MixtureConfig.model_validate({"method": method, "max_epochs": cap, **more}), budget)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.7, 1.0])
def test_weights_are_tempered_shares(alpha: float) -> None:
    found = weights(SIZES, MixtureConfig(alpha=alpha))
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert found["en"] / found["yo"] == pytest.approx(10_000**alpha)


def test_an_explicit_weight_replaces_the_tempered_share() -> None:
    found = weights(SIZES, MixtureConfig(alpha=1.0, weights={"yo": 0.5, "fr": 0.0}))
    share = 1_000_000 / 1_010_100
    assert found == pytest.approx({"en": share / (share + 0.5), "fr": 0, "yo": 0.5 / (share + 0.5)})


def test_an_explicit_weight_replaces_the_uniform_share() -> None:
    found = capped(SIZES, "unimax", 1e6, 1000, weights={"yo": 1.0})
    assert found == pytest.approx({"en": 1 / 5, "fr": 1 / 5, "yo": 3 / 5})


def test_method_explicit_uses_only_explicit_weights() -> None:
    config = MixtureConfig(method="explicit", weights={"en": 1, "fr": 2, "yo": 1, "xx": 0})
    assert weights(SIZES, config) == {"en": 0.25, "fr": 0.5, "yo": 0.25}
    with pytest.raises(
        InputError, match=r"there is no weight for these languages: fr, yo.*every language of the corpus"
    ):
        weights(SIZES, MixtureConfig(method="explicit", weights={"en": 1}))


def test_weights_that_cannot_be_met_are_errors() -> None:
    with pytest.raises(InputError, match=r"the clean corpus has no document in these languages: de, zu.*en, fr, yo"):
        weights(SIZES, MixtureConfig(weights={"zu": 1, "de": 1, "xx": 0}))
    with pytest.raises(InputError, match="no language has a weight above 0"):
        weights({"en": 5}, MixtureConfig(weights={"en": 0}))
    with pytest.raises(InputError, match="no language has a weight above 0"):
        weights({}, MixtureConfig())


def test_alpha_1_gives_the_shares_of_roots_that_bloom_used() -> None:
    assert ROOTS_BYTES == 1_614_479_114_961, "the paper prints this total"
    found = weights(ROOTS, MixtureConfig(alpha=1.0))
    assert found == pytest.approx({code: size / ROOTS_BYTES for code, size in ROOTS.items()}, rel=1e-12)
    # Figure 1 of the paper shows 30.04 %.
    assert f"{found['en']:.2%}" == "30.04%"
    # If training reads as many bytes as the corpus has, a cap of one epoch forces the natural shares in every method.
    for method, alpha in (("alpha", 0.3), ("unimax", 1.0)):
        once = capped(ROOTS, method, 1, ROOTS_BYTES, alpha=alpha)
        assert once == pytest.approx(found, rel=1e-12)


def test_unimax_on_roots_raises_small_languages_up_to_the_cap() -> None:
    uniform = capped(ROOTS, "unimax", 1e6, 10**9)
    assert set(uniform.values()) == {1 / 47}, (
        "with a small budget no language reaches the cap, so all weights are equal"
    )
    found = capped(ROOTS, "unimax", 4, ROOTS_BYTES)
    assert found == pytest.approx(unimax(ROOTS, ROOTS_BYTES, Fraction(4)), rel=1e-12)
    epochs = {code: found[code] * ROOTS_BYTES / ROOTS[code] for code in ROOTS}
    assert epochs["tum"] == pytest.approx(4)
    assert epochs["en"] < 1, "the largest languages lose what the small ones gain"
    assert len({round(found[code], 12) for code in ("en", "zhs", "fr", "es", "code")}) == 1


@given(CORPORA, BUDGETS, CAPS)
def test_unimax_equals_the_algorithm_of_the_paper(sizes: dict[str, int], budget: int, cap: float) -> None:
    assert capped(sizes, "unimax", cap, budget) == pytest.approx(unimax(sizes, budget, Fraction(cap)), rel=1e-9)


@given(CORPORA, METHODS, st.floats(0.05, 1.0), BUDGETS, CAPS)
def test_weights_sum_to_1_and_respect_sizes_and_the_cap(
    sizes: dict[str, int], method: str, alpha: float, budget: int, cap: float
) -> None:
    found = capped(sizes, method, cap, budget, alpha=alpha)
    assert found.keys() == sizes.keys()
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    by_size = sorted(sizes, key=lambda code: sizes[code])
    for small, large in itertools.pairwise(by_size):
        assert found[small] <= found[large] * (1 + 1e-9)
    # If the capped text is smaller than the budget, every language is repeated equally often, beyond the cap.
    most = max(cap, budget / sum(sizes.values()))
    assert all(found[code] * budget <= most * sizes[code] * (1 + 1e-9) for code in sizes)


@given(CORPORA, METHODS, BUDGETS, CAPS, st.randoms(use_true_random=False))
def test_the_order_of_languages_does_not_matter(sizes, method, budget, cap, random) -> None:  # type: ignore[no-untyped-def]
    codes = list(sizes)
    random.shuffle(codes)
    assert capped({code: sizes[code] for code in codes}, method, cap, budget) == capped(sizes, method, cap, budget)


@given(CORPORA, METHODS, BUDGETS)
def test_a_cap_that_is_not_reached_changes_nothing(sizes: dict[str, int], method: str, budget: int) -> None:
    config = MixtureConfig.model_validate({"method": method, "max_epochs": 1e6})
    free = weights(sizes, config)
    reached = max(free[code] * budget / sizes[code] for code in sizes) > 1e6
    if not reached:
        assert weights(sizes, config, budget) == pytest.approx(free, rel=1e-9)


@given(st.dictionaries(st.text("ab", max_size=3), st.tuples(st.floats(1e-6, 1e6), st.integers(0, 10**6)), min_size=1))
def test_the_budget_is_spent_as_far_as_limits_allow(entries: dict[str, tuple[float, int]]) -> None:
    shares = {name: share for name, (share, _) in entries.items()}
    limits = {name: limit for name, (_, limit) in entries.items()}
    for budget in (1, 1000, sum(limits.values()), sum(limits.values()) + 7):
        parts = fill(shares, budget, limits)
        assert sum(parts.values()) == min(budget, sum(limits.values()))
        assert all(parts[name] <= limits[name] for name in parts)
        free = [name for name in parts if parts[name] < limits[name]]
        levels = {parts[name] / Fraction(shares[name]) for name in free}
        assert len(levels) <= 1, "parts below their limit must be in proportion to their shares"
        for name in set(parts) - set(free):
            assert all(parts[name] / Fraction(shares[name]) <= level for level in levels)
