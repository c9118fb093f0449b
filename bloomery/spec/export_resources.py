"""Compute the memory, the threads and the time that the export of a model needs.

The export writes and proves one layer at a time, so its memory does not depend on the number of layers.
`bench/export.py` compares the computed memory with that of real exports.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
from bloomery.spec.parameters import declare, parameter_count, planned_rows
from bloomery.spec.weight_files import DTYPE_BYTES, PRECISION_DTYPES, export_dtype

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig

WRITER_THREADS = 2
"""Number of threads that load layers while one thread writes."""
SLICE_BYTES = 1 << 27
"""Largest size of a slice of the head's fp32 matrix."""
CHUNK_BYTES = 1 << 27
"""Largest size of the logits that are in memory at one time while a summary is made."""
BATCH_POSITIONS = 1024
"""Most positions that short samples have together when a block computes them at the same time."""
SEGMENT_POSITIONS = 512
"""Most positions of a longer sample that a block computes at the same time. The attention scores take
[heads, 512, length] and not [heads, length, length]."""
MAX_NEW_TOKENS = 32
"""Largest number of tokens of a greedy text."""
MIN_NEW_TOKENS = 4
"""Smallest number of tokens of a greedy text."""

_PARAMETERS_PER_PASS = 20_000_000_000
"""Largest number of parameters that all passes of the greedy continuation read. One pass reads every parameter once."""
_RUNTIME_BYTES = 3 << 28
"""Memory of Python, torch, transformers and a tokenizer without a model. 580 MB were measured with 250,680 entries."""
_SCORE_COPIES = 4
"""Number of matrices of attention scores [heads, segment, length] that transformers holds at the same time."""
_PARAMETERS_PER_THREAD = 500_000_000
_MOST_THREADS = 16
_DISK_BYTES_PER_SECOND = 100e6
_PASS_BYTES_PER_SECOND = 500e6
"""Speed at which a pass reads weights and casts them to fp32."""
_FLOPS_PER_THREAD = 20e9
"""Speed of fp32 matrix products on one core. These three speeds are assumptions about a slow machine."""
_START_SECONDS = 120
_MARGIN = 1.5
_LEAST_SECONDS = 1800


@dataclass(frozen=True)
class ExportResources:
    """Resources that the job of an export requests."""

    memory_bytes: int
    threads: int
    seconds: int
    """Limit of the run time, for a slow disk and slow cores."""

    @property
    def memory_mb(self) -> int:
        """Memory in MB (10^6 bytes), rounded up."""
        return math.ceil(self.memory_bytes / 1e6)

    @property
    def minutes(self) -> int:
        """Limit of the run time in minutes, rounded up."""
        return math.ceil(self.seconds / 60)


def new_tokens(parameters: int) -> int:
    """Return the number of tokens of a greedy continuation. Large models get fewer tokens, because each token needs one
    pass over all parameters."""
    return max(MIN_NEW_TOKENS, min(MAX_NEW_TOKENS, _PARAMETERS_PER_PASS // max(1, parameters)))


def batch_size(length: int) -> int:
    """Return the number of samples of `length` tokens that a block computes at the same time."""
    return max(1, BATCH_POSITIONS // max(1, length))


def resources_of_export(config: RunConfig) -> ExportResources:
    """Return the memory, the threads and the limit of the run time of the run's export."""
    rows, model = planned_rows(config), config.model
    written = DTYPE_BYTES[export_dtype(config.export, config.training.precision)]
    trained = DTYPE_BYTES[PRECISION_DTYPES[config.training.precision]]
    parameters = parameter_count(model, rows)
    threads = max(2, min(_MOST_THREADS, parameters // _PARAMETERS_PER_THREAD))
    positions = SUMMARY_SAMPLES * model.sequence_length + REFERENCE_SAMPLES * REFERENCE_LENGTH
    seconds = (
        _START_SECONDS
        # The checkpoint is read, the model is written, and its files are read again.
        + parameters * (trained + 2 * written) / _DISK_BYTES_PER_SECOND
        # The exported model computes the samples, then each new token. The checkpoint's pieces compute the texts once.
        + parameters * written * (2 + new_tokens(parameters)) / _PASS_BYTES_PER_SECOND
        + positions * 2 * parameters / (threads * _FLOPS_PER_THREAD)
    )
    return ExportResources(
        memory_bytes=max(_RUNTIME_BYTES + _writing(model, rows, written), proof_memory_bytes(config)),
        threads=threads,
        seconds=max(_LEAST_SECONDS, math.ceil(_MARGIN * seconds)),
    )


def _writing(model: ModelConfig, rows: int, written: int) -> int:
    """Return the bytes in memory while the model is written: one layer for each thread, and one more layer."""
    layers: Counter[int] = Counter()
    for parameter in declare(model, rows):
        layers[parameter.layer] += parameter.count
    largest = max(parameter.count for parameter in declare(model, rows))
    return ((WRITER_THREADS + 1) * max(layers.values()) + largest) * written


def proof_memory_bytes(config: RunConfig) -> int:
    """Return the memory that the proof of the run's export needs.

    The largest of these steps counts: the written model computes a block or the logits of the samples, or the
    checkpoint's pieces compute a block or the logits of the greedy texts.
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
    head_slice = min(SLICE_BYTES // 4, rows * hidden)
    chunk = min(CHUNK_BYTES // 4, length * max(1, head_slice // hidden))
    written_block = layer + states + _block_values(model) + reference
    # A summary holds the logits of two chunks and the exponentials of one.
    written_head = states + logits + head_slice + 3 * chunk
    # The pieces are mapped, and one matrix at a time is cast to fp32. They compute short texts.
    pieces_block = matrix + BATCH_POSITIONS * (6 * hidden + 3 * model.ffn_size) + reference
    pieces_head = 2 * head_slice + logits
    return _RUNTIME_BYTES + max(
        4 * written_block,
        4 * written_head,
        4 * pieces_block + trained * layer,
        4 * pieces_head + trained * rows * hidden,
    )


def _block_values(model: ModelConfig) -> int:
    """Return the number of values that a block of transformers holds while it computes one segment of a batch."""
    length, hidden = model.sequence_length, model.hidden_size
    batch, segment = batch_size(length), min(length, SEGMENT_POSITIONS)
    scores = _SCORE_COPIES * batch * model.heads * segment * length
    # A segment's keys and values are appended to a copy of the earlier ones.
    cache = 3 * batch * length * hidden
    # The allocator keeps some of the attention's memory while the feed-forward layer computes.
    features = batch * segment * (9 * hidden + 5 * model.ffn_size)
    return cache + features + scores
