"""Compute the disk space of a run: retained checkpoints, exported weights, token index and logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.config.tokens import UINT16_BELOW
from bloomery.spec.memory import checkpoint_bytes_per_parameter
from bloomery.spec.parameters import parameter_count, planned_rows
from bloomery.spec.save_points import saves_until
from bloomery.spec.trajectory import trajectory
from bloomery.spec.weight_files import DTYPE_BYTES, export_dtype

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

METRICS_BYTES = 1_000
"""Bytes that an iteration adds to all logs together: metrics.jsonl, main_log.txt and TensorBoard."""


@dataclass(frozen=True)
class DiskUse:
    """Largest disk space of a run, in bytes."""

    checkpoints: int
    """Largest size of all checkpoints that exist at one time: the retained ones and the one being written."""
    kept_checkpoints: int
    """Number of these checkpoints."""
    export: int
    """Size of the exported model and of its published copy in a folder."""
    index: int
    """Size of the token files, if every token is read once."""
    logs: int

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.checkpoints + self.export + self.index + self.logs


def checkpoint_bytes(config: RunConfig) -> int:
    """Return the bytes of one checkpoint."""
    parameters = parameter_count(config.model, planned_rows(config))
    return parameters * checkpoint_bytes_per_parameter(config.training.precision)


def kept_checkpoints(config: RunConfig, iterations: int) -> int:
    """Return the largest number of checkpoints that exist at one time within `iterations` iterations.

    The checkpoint that is being written is included.
    """
    policy = config.training.checkpoint
    saves = saves_until(policy, iterations) + 1
    kept = min(saves, policy.keep_last) + len({each for each in policy.at_iterations if each <= iterations})
    if policy.keep_every_iterations is not None:
        kept += iterations // policy.keep_every_iterations
    return min(saves, kept) + 1


def disk_bytes(config: RunConfig) -> DiskUse:
    """Return the largest disk space that a run uses."""
    rows, end = planned_rows(config), trajectory(config.model, config.training).end
    # The index stores samples of full length, even if a curriculum shortens them for training.
    tokens = end.consumed_samples * config.model.sequence_length
    kept = kept_checkpoints(config, end.iteration)
    return DiskUse(
        checkpoints=kept * checkpoint_bytes(config),
        kept_checkpoints=kept,
        export=2
        * parameter_count(config.model, rows)
        * DTYPE_BYTES[export_dtype(config.export, config.training.precision)],
        index=tokens * (2 if config.tokenizer.vocabulary_size < UINT16_BELOW else 4),
        logs=end.iteration * METRICS_BYTES,
    )
