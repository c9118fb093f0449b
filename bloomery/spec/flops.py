"""Count the floating-point operations of an iteration, with or without recomputation.

Callers state which count they mean, because a bare "TFLOPs" is ambiguous.

The formula is 24 k B s l h^2 (1 + s / 6h + V / 16 l h) (BigScience; Narayanan et al. 2021, arXiv:2104.04473), for B
samples of s tokens, l layers, hidden size h and V vocabulary rows. k is 4 if every block is recomputed in the backward
pass, which counts what the hardware computes. k is 3 without recomputation, which counts what the model needs.
Selective recomputation also has k = 3, because it repeats no matrix product.

SwiGLU has a third matrix in the feed-forward layer. T5 adds the decoder and its attention to the encoder's output.
BERT's small heads are left out.
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
    sequence_length: int | None = None,
) -> float:
    """Return the operations of one iteration on all devices together. If `recomputed` is true, the second forward pass
    counts too.

    `sequence_length` is the number of tokens of a sample, which a curriculum may shorten. If it is None, the model's
    sequence length is used.
    """
    hidden, length = model.hidden_size, sequence_length or model.sequence_length
    passes = 4 if recomputed else 3
    if model.family == "t5":
        return float(batch_samples) * _t5_sample(model, vocabulary_rows, passes)
    # A block takes 2 (4 h^2 + 2 h f) + 4 s h operations a token. With f = 4 h this is the published 24 h^2 (1 + s / 6
    # h).
    block = _dense(model) + 4 * length * hidden
    tokens = float(batch_samples) * length
    return passes * tokens * (model.layers * block + 1.5 * hidden * vocabulary_rows)


def _dense(model: ModelConfig) -> int:
    """Return the operations of a block's matrices on one token, in the forward pass."""
    matrices = 3 if model.activation == "swiglu" else 2
    return 2 * (4 * model.hidden_size**2 + matrices * model.hidden_size * model.ffn_size)


def _t5_sample(model: ModelConfig, rows: int, passes: int) -> float:
    hidden, source, target = model.hidden_size, model.sequence_length, model.decoder_sequence_length or 0
    encoder = model.layers * source * (_dense(model) + 4 * source * hidden)
    across = 4 * hidden**2 * (source + target) + 4 * source * target * hidden
    decoder = (model.decoder_layers or 0) * (target * (_dense(model) + 4 * target * hidden) + across)
    return float(passes * (encoder + decoder) + passes * 1.5 * target * hidden * rows)


def tflops_per_device(flops: float, seconds: float, world_size: int) -> float:
    """Return the TFLOP/s of one device."""
    return flops / (seconds * world_size * 1e12)
