"""Compute the cost of failures and the best interval between saves.

The formulas are those of Young 1974 and Daly 2006 (doi:10.1016/j.future.2004.11.016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Risk:
    """Expected cost of failures that occur at random with a fixed mean time between them."""

    interval_seconds: float
    """Seconds of work between two saves."""
    lost_fraction: float
    """Share of the wall-clock time that saves, repeated work and restarts take."""


def young_interval(save_seconds: float, between_failures_seconds: float) -> float:
    """Return the best interval between saves to first order, sqrt(2 d M), in seconds.

    d is the time of a save, and M the mean time between failures.
    """
    return math.sqrt(2 * save_seconds * between_failures_seconds)


def daly_interval(save_seconds: float, between_failures_seconds: float) -> float:
    """Return the best interval between saves by Daly's higher-order formula, in seconds.

    If a save takes at least twice the mean time between failures, this mean time is returned.
    """
    save, mean = save_seconds, between_failures_seconds
    if save >= 2 * mean:
        return mean
    ratio = save / (2 * mean)
    return math.sqrt(2 * save * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def wall_seconds(
    work_seconds: float,
    interval_seconds: float,
    save_seconds: float,
    restart_seconds: float,
    between_failures_seconds: float,
) -> float:
    """Return the expected wall-clock time of `work_seconds` of work with a save every `interval_seconds` of work.

    The formula is Daly's full model.
    """
    mean = between_failures_seconds
    exponent = (interval_seconds + save_seconds) / mean
    return mean * math.exp(restart_seconds / mean) * math.expm1(exponent) * work_seconds / interval_seconds


def risk(interval_seconds: float, save_seconds: float, restart_seconds: float, between_failures_seconds: float) -> Risk:
    """Return the expected cost of failures with a save every `interval_seconds` of work."""
    try:
        wall = wall_seconds(1.0, interval_seconds, save_seconds, restart_seconds, between_failures_seconds)
    except OverflowError:  # Failures are so frequent that no interval is ever completed.
        wall = math.inf
    return Risk(interval_seconds=interval_seconds, lost_fraction=1 - 1 / wall)
