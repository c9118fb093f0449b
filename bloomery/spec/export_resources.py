"""Compute the memory, the threads and the time that the export of a model needs.

The export writes a few layers at a time and proves one layer at a time. Its memory does not depend on the number of
layers. `bench/export.py` compares the computed memory with that of real exports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
from bloomery.spec.parameters import declare, parameter_count, planned_rows
from bloomery.spec.proof_memory import proof_memory_bytes
from bloomery.spec.weight_files import DTYPE_BYTES, PRECISION_DTYPES, export_dtype, exported_rows, weight_files
from bloomery.spec.writing_memory import memory_of_writing

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

MAX_NEW_TOKENS = 32
"""Largest number of tokens of a greedy text."""
MIN_NEW_TOKENS = 4
"""Smallest number of tokens of a greedy text."""

_PARAMETERS_PER_PASS = 20_000_000_000
"""Largest number of parameters that all passes of the greedy continuation read. One pass reads every parameter once."""
_RUNTIME_BYTES = 3 << 28
"""Memory of Python, torch, transformers and a tokenizer without a model. 580 MB were measured with 250,680 entries."""
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
    writing = memory_of_writing(
        config.export,
        model,
        config.training.precision,
        declare(model, rows),
        rows=exported_rows(config.export, model, rows, config.tokenizer.vocabulary_size),
        max_shard_bytes=weight_files(config).shard_bytes,
    )
    return ExportResources(
        memory_bytes=_RUNTIME_BYTES + max(writing.bytes_with(writing.threads), proof_memory_bytes(config)),
        threads=threads,
        seconds=max(_LEAST_SECONDS, math.ceil(_MARGIN * seconds)),
    )
