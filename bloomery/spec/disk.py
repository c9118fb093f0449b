"""Disk that a run fills: checkpoints under the retention policy, exported weights, token index, logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.config.tokens import UINT16_BELOW
from bloomery.spec.memory import checkpoint_bytes_per_parameter
from bloomery.spec.parameters import parameter_count, planned_rows
from bloomery.spec.save_points import saves_until
from bloomery.spec.trajectory import trajectory
from bloomery.spec.weight_files import DTYPE_BYTES

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

METRICS_BYTES = 1_000
"""An iteration in all logs together: metrics.jsonl, main_log.txt, TensorBoard."""


@dataclass(frozen=True)
class DiskUse:
    """Bytes, at most."""

    checkpoints: int
    """All that are ever there at once: kept ones and the one that is being written."""
    kept_checkpoints: int
    """How many that is."""
    export: int
    """The exported model, and its published copy in a folder."""
    index: int
    """Token files, when every token is read once."""
    logs: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.checkpoints + self.export + self.index + self.logs


def checkpoint_bytes(config: RunConfig) -> int:
    """Bytes of one checkpoint."""
    parameters = parameter_count(config.model, planned_rows(config))
    return parameters * checkpoint_bytes_per_parameter(config.training.precision)


def kept_checkpoints(config: RunConfig, iterations: int) -> int:
    """Most checkpoints that are there at once in `iterations` iterations, the one being written included."""
    policy = config.training.checkpoint
    saves = saves_until(policy, iterations) + 1
    kept = min(saves, policy.keep_last) + len({each for each in policy.at_iterations if each <= iterations})
    if policy.keep_every_iterations is not None:
        kept += iterations // policy.keep_every_iterations
    return min(saves, kept) + 1


def disk_bytes(config: RunConfig) -> DiskUse:
    """The most that a run fills."""
    rows, end = planned_rows(config), trajectory(config.model, config.training).end
    # A curriculum cuts samples that the index holds whole.
    tokens = end.consumed_samples * config.model.sequence_length
    kept = kept_checkpoints(config, end.iteration)
    return DiskUse(
        checkpoints=kept * checkpoint_bytes(config),
        kept_checkpoints=kept,
        export=2 * parameter_count(config.model, rows) * DTYPE_BYTES[config.export.dtype],
        index=tokens * (2 if config.tokenizer.vocabulary_size < UINT16_BELOW else 4),
        logs=end.iteration * METRICS_BYTES,
    )
