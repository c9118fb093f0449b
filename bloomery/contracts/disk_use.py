"""Compute the disk space of a run: retained checkpoints, exported weights, token index and logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.contracts.index_size import IndexSize, PlannedText, index_size, planned_text, planned_validation_sets
from bloomery.contracts.log_size import LogSize, log_size
from bloomery.spec.checkpoint_size import checkpoint_bytes
from bloomery.spec.parameters import parameter_count, planned_rows
from bloomery.spec.save_points import saves_until
from bloomery.spec.trajectory import trajectory
from bloomery.spec.weight_files import DTYPE_BYTES, export_dtype

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_TOKENIZER_ENTRY = 60
"""Bytes of a vocabulary entry in tokenizer.json, which lists each entry twice: in the vocabulary and as a merge.
Measured: 62 with the 2,048 entries of config/sample.yaml."""
_MODEL_CARD = 60_000
"""Bytes of the small files of an exported model: model card, loss curve, parity.json and the configuration."""


@dataclass(frozen=True)
class DiskUse:
    """Largest disk space of a run, in bytes."""

    checkpoint: int
    """Size of one checkpoint."""
    checkpoints: int
    """Largest size of all checkpoints that exist at one time: the retained ones and the one being written."""
    kept_checkpoints: int
    """Number of these checkpoints."""
    export: int
    """Size of the exported model and of its published copy in a folder. 0 if the run exports no model."""
    index_parts: IndexSize
    text: PlannedText
    """Estimate of the text from which the size of the index follows."""
    log_parts: LogSize

    @property
    def index(self) -> int:
        """Size of the token index."""
        return self.index_parts.total

    @property
    def logs(self) -> int:
        """Size of all logs of the training, without the copies in a folder of published files."""
        return self.log_parts.total

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.checkpoints + self.export + self.index + self.logs


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


def disk_use(config: RunConfig) -> DiskUse:
    """Return the largest disk space that a run uses."""
    rows, end = planned_rows(config), trajectory(config.model, config.training).end
    kept = kept_checkpoints(config, end.iteration)
    item = DTYPE_BYTES[export_dtype(config.export, config.training.precision)]
    text = planned_text(config)
    sets = planned_validation_sets(config, text)
    one = checkpoint_bytes(config, len(sets))
    return DiskUse(
        checkpoint=one,
        checkpoints=kept * one,
        kept_checkpoints=kept,
        export=(2 if config.export.enabled else 0)
        * (
            parameter_count(config.model, rows) * item
            + config.tokenizer.vocabulary_size * _TOKENIZER_ENTRY
            + _MODEL_CARD
        ),
        index_parts=index_size(config, text, sets),
        text=text,
        log_parts=log_size(config, sets),
    )
