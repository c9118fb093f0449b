"""Count how many of the first samples of a blend belong to each dataset.

The counts are exact, because they are computed with integers and fractions. Building the index and resuming a training
use the same counts.

In a blend stage planned for `planned` samples, sample k of a dataset with quota q is placed at the relative position (k
+ 1/2) / q. Samples are sorted by this position, and ties are sorted by the dataset's name. The quotas sum to `planned`.
If the stage is cut into `planned` slots of equal width, each slot holds at most one sample of a dataset, because q <=
planned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction


def before_slot(quota: int, planned: int, slot: int) -> int:
    """Return the number of k >= 0 with (k + 1/2) / quota < slot / planned."""
    return max(0, -((planned - 2 * quota * slot) // (2 * planned)))


def taken(quotas: Mapping[str, int], samples: int) -> dict[str, int]:
    """Return how many of the first `samples` samples of a stage belong to each dataset.

    `samples` must be between 0 and the sum of `quotas`.
    """
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
