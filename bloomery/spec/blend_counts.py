"""Where the samples of a blend lie: a closed form, in integers, for index, resume and trace alike.

In a stage laid out over `planned` samples, sample k of a dataset with quota q belongs at (k + 1/2) / q of it. The order
sorts by that, ties by the name; the quotas sum to `planned`. Cut the stage into `planned` slots of equal width:
each then holds at most one sample of a dataset, because q <= planned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction


def before_slot(quota: int, planned: int, slot: int) -> int:
    """Number of k >= 0 with (k + 1/2) / quota < slot / planned."""
    return max(0, -((planned - 2 * quota * slot) // (2 * planned)))


def taken(quotas: Mapping[str, int], samples: int) -> dict[str, int]:
    """How many of the first `samples` of a stage are each dataset's: 0 <= `samples` <= sum of `quotas`."""
    planned = sum(quotas.values())
    if not 0 < samples < planned:
        return {name: quota if samples else 0 for name, quota in quotas.items()}

    def filled(slot: int) -> int:
        return sum(before_slot(quota, planned, slot) for quota in quotas.values())

    slot = bisect_right(range(planned + 1), samples, key=filled) - 1
    counts = {name: before_slot(quota, planned, slot) for name, quota in quotas.items()}
    inside = [name for name, quota in quotas.items() if before_slot(quota, planned, slot + 1) > counts[name]]
    inside.sort(key=lambda name: (Fraction(2 * counts[name] + 1, 2 * quotas[name]), name))
    for name in inside[: samples - sum(counts.values())]:
        counts[name] += 1
    return counts
