"""Summarise LAMB's trust ratios by layer, for the logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from bloomery.spec.placement import Parameter

_BLOCK = re.compile(r"h\.(\d+)\.")
_DIGITS = 6
"""Significant digits of a ratio in the logs."""

LayerRatios = dict[str, tuple[float, float, float]]
"""Least, median and greatest trust ratio of the parameters of each layer."""


def layer_ratios(parameters: Sequence[Parameter], ratios: Sequence[float]) -> LayerRatios:
    """Return the ratios by layer, in the order of the model: `embedding`, `block 0`, ..., `final norm`, `head`."""
    layers: dict[str, list[float]] = {}
    for parameter, ratio in zip(parameters, ratios, strict=True):
        layers.setdefault(_layer(parameter.name), []).append(float(f"{ratio:.{_DIGITS}g}"))
    return {name: (min(each), median(each), max(each)) for name, each in layers.items()}


def _layer(name: str) -> str:
    if block := _BLOCK.match(name):
        return f"block {block[1]}"
    if name.startswith("ln_f."):
        return "final norm"
    return "head" if name.startswith("lm_head.") else "embedding"
