"""Compute the memory in which the proof compares a written model with its checkpoint.

The proof holds one fp32 layer at a time, so its memory does not depend on the number of layers. The constants of this
module limit which parts of the samples and of the head's matrix are in memory at the same time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
from bloomery.spec.parameters import declare, planned_rows
from bloomery.spec.weight_files import DTYPE_BYTES, PRECISION_DTYPES

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig

HEAD_SLICE_BYTES = 1 << 27
"""Largest size of a slice of the head's fp32 matrix."""
CHUNK_BYTES = 1 << 27
"""Largest size of the logits that are in memory at one time while a summary is made."""
BATCH_POSITIONS = 1024
"""Largest total number of positions of the short samples that a block computes at the same time."""
SPAN_POSITIONS = 512
"""Largest number of positions of a span. A block computes a longer sample span by span, so that the attention scores
have the shape [heads, 512, length] and not [heads, length, length]."""

_SCORE_COPIES = 4
"""Number of matrices of attention scores [heads, span, length] that transformers holds at the same time."""


def batch_size(length: int) -> int:
    """Return the number of samples of `length` tokens that a block computes at the same time."""
    return max(1, BATCH_POSITIONS // max(1, length))


def proof_memory_bytes(config: RunConfig) -> int:
    """Return the memory that the proof of the run's export needs, without that of the libraries.

    This is the largest memory of four steps. The written model computes a block, and then the logits of the samples.
    The checkpoint's pieces compute a block, and then the logits of the greedy texts.
    """
    rows, model = planned_rows(config), config.model
    trained = DTYPE_BYTES[PRECISION_DTYPES[config.training.precision]]
    hidden, length = model.hidden_size, model.sequence_length
    inside = [each for each in declare(model, rows) if each.name.startswith("h.")]
    layers: Counter[int] = Counter()
    for parameter in inside:
        layers[parameter.layer] += parameter.count
    layer, matrix = max(layers.values(), default=0), max((each.count for each in inside), default=0)
    reference = REFERENCE_SAMPLES * REFERENCE_LENGTH * rows
    # The written model's logits and their differences from the reference are in memory, too.
    logits = 3 * reference
    states = (SUMMARY_SAMPLES * length + REFERENCE_SAMPLES * REFERENCE_LENGTH) * hidden
    head_slice = min(HEAD_SLICE_BYTES // 4, rows * hidden)
    chunk = min(CHUNK_BYTES // 4, length * max(1, head_slice // hidden))
    written_block = layer + states + _block_values(model) + reference
    # A summary holds the logits of two chunks and the exponentials of one.
    written_head = states + logits + head_slice + 3 * chunk
    # The pieces are mapped, and one matrix at a time is cast to fp32. They compute only short texts.
    pieces_block = matrix + BATCH_POSITIONS * (6 * hidden + 3 * model.ffn_size) + reference
    pieces_head = 2 * head_slice + logits
    return max(
        4 * written_block,
        4 * written_head,
        4 * pieces_block + trained * layer,
        4 * pieces_head + trained * rows * hidden,
    )


def _block_values(model: ModelConfig) -> int:
    """Return the number of values that a block of transformers holds while it computes one span of a batch."""
    length, hidden = model.sequence_length, model.hidden_size
    batch, span = batch_size(length), min(length, SPAN_POSITIONS)
    scores = _SCORE_COPIES * batch * model.heads * span * length
    # Adding the keys and values of a span copies those of the earlier spans.
    cache = 3 * batch * length * hidden
    # The allocator keeps some of the attention's memory while the feed-forward layer computes.
    features = batch * span * (9 * hidden + 5 * model.ffn_size)
    return cache + features + scores
