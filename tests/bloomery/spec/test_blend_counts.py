"""Compare the closed form of a blend with sorted exact fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from bloomery.spec.blend_counts import before_slot, taken

QUOTAS = st.dictionaries(st.text("abc/-", min_size=1, max_size=3), st.integers(0, 40), min_size=1, max_size=7)


def in_order(quotas: dict[str, int]) -> list[tuple[str, int]]:
    """Return a stage's (dataset, sample) pairs in order, by sorting exact fractions."""
    places = [(Fraction(2 * k + 1, 2 * quota), name, k) for name, quota in quotas.items() for k in range(quota)]
    return [(name, k) for _, name, k in sorted(places)]


@given(QUOTAS, st.data())
def test_taken_counts_each_datasets_samples_before_the_cut(quotas: dict[str, int], data: st.DataObject) -> None:
    order = in_order(quotas)
    samples = data.draw(st.integers(0, len(order)))
    names = [name for name, _ in order[:samples]]
    assert taken(quotas, samples) == {name: names.count(name) for name in quotas}


@given(st.integers(1, 50), st.integers(1, 200), st.data())
def test_samples_before_a_slot_are_counted_exactly(quota: int, planned: int, data: st.DataObject) -> None:
    slot = data.draw(st.integers(0, planned))
    places = [Fraction(2 * k + 1, 2 * quota) for k in range(quota)]
    assert before_slot(quota, planned, slot) == sum(place < Fraction(slot, planned) for place in places)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=6).filter(any), st.fractions(0, 1))
def test_each_dataset_of_a_cut_stage_beyond_32_bits_is_close_to_its_share(quotas: list[int], at: Fraction) -> None:
    named = {str(number): quota for number, quota in enumerate(quotas)}
    planned = sum(quotas)
    samples = int(at * planned)
    found = taken(named, samples)
    assert sum(found.values()) == samples
    for name, quota in named.items():
        assert 0 <= found[name] <= quota
        assert abs(found[name] - Fraction(quota * samples, planned)) <= len(named)
