"""Floating-point operations of an iteration, both ways: labelled, because a bare "TFLOPs" is ambiguous.

Formula (BigScience, Narayanan et al. 2021, arXiv:2104.04473): 24 k B s l h^2 (1 + s / 6h + V / 16 l h), with k = 4 when
every block is recomputed in the backward pass (what the hardware does) and 3 without (what the model needs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig


def iteration_flops(
    model: ModelConfig,
    vocabulary_rows: int,
    batch_samples: int,
    *,
    recomputed: bool,
) -> float:
    """Operations of one iteration over the whole machine; `recomputed` counts the second forward pass too."""
    hidden, layers = model.hidden_size, model.layers
    length = model.sequence_length
    passes = 4 if recomputed else 3
    scale = 1 + length / (6 * hidden) + vocabulary_rows / (16 * layers * hidden)
    return 24.0 * passes * batch_samples * length * layers * hidden**2 * scale


def tflops_per_device(flops: float, seconds: float, world_size: int) -> float:
    """TFLOP/s of one device."""
    return flops / (seconds * world_size * 1e12)
