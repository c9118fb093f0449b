"""Summarise LAMB's trust ratios by layer, for the logs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bloomery.contracts.metrics_record import TrustRatios
from bloomery.spec.layer_names import layer_name
from bloomery.spec.placement import Parameter

_DIGITS = 6
"""Significant digits of a ratio in the logs."""


def layer_ratios(parameters: Sequence[Parameter], ratios: Sequence[float]) -> TrustRatios:
    """Return the least, the median and the greatest ratio of each layer's parameters, in the order of the model."""
    layers: dict[str, list[float]] = {}
    for parameter, ratio in zip(parameters, ratios, strict=True):
        layers.setdefault(layer_name(parameter), []).append(ratio)
    return {name: (_rounded(min(each)), _rounded(median(each)), _rounded(max(each))) for name, each in layers.items()}


def _rounded(ratio: float) -> float:
    return float(f"{ratio:.{_DIGITS}g}")
