"""Make checkpoints of any layout whose weights and optimizer state are random values of known parameters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

from bloomery.checkpoint.optimizer_state import GroupSettings, OptimizerSettings
from bloomery.checkpoint.weights import Checkpoint
from bloomery.checkpoint.write_checkpoint import first_manifest, write_checkpoint
from bloomery.config.stages import TrainStage
from bloomery.contracts.sample_prefix import SamplePrefix
from bloomery.spec.placement import Parameter

ROWS = 768
"""Number of embedding rows."""
ADAM = OptimizerSettings(
    moments=("exp_avg", "exp_avg_sq"),
    groups={
        decays: GroupSettings({"lr": 0.25, "weight_decay": 0.1 * decays}, {"step": torch.tensor(5.0)})
        for decays in (True, False)
    },
)


@cache
def random_whole(parameter: Parameter, kind: str) -> torch.Tensor:
    """Return random values that depend only on the parameter's name and the kind of state."""
    seed = list(f"{kind} {parameter.name}".encode())
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(parameter.shape, dtype=np.float32))


def random_read(parameter: Parameter, kind: str, wanted: range | None) -> torch.Tensor:
    """Return the random values of a parameter, or only the indices `wanted` of its split dimension."""
    dimension = parameter.placement.dimension
    found = random_whole(parameter, kind)
    if dimension is None or wanted is None:
        return found
    return found.narrow(dimension, wanted.start, len(wanted)).contiguous()


def random_checkpoint(folder: Path, configuration: TrainStage) -> Checkpoint:
    """Write a checkpoint with random weights and optimizer state, and open it."""
    manifest = first_manifest(
        configuration,
        identity="0" * 32,
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        vocabulary_size=500,
        vocabulary_rows=ROWS,
        versions={},
    )
    write_checkpoint(folder, manifest, random_read, ADAM)
    return Checkpoint(folder)
