"""Build DeepSpeed's engine for a stage's configuration, and check that what was promised was built."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import torch

from bloomery.base.errors import CheckFailedError
from bloomery.config.stages import TrainStage
from bloomery.plan.deepspeed_json import EXPECTED_WRAPPER, deepspeed_json
from training.model.initialize import initialize
from training.model.pipeline import BloomPipeline
from training.optim.builder import build_optimizer
from training.parallel.mesh import Mesh


@dataclass(frozen=True)
class Trainer:
    """DeepSpeed's engine with what it was built from."""

    engine: Any
    network: BloomPipeline
    mesh: Mesh
    stage: TrainStage
    vocabulary_rows: int

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights in use."""
        return torch.bfloat16 if self.stage.training.precision == "bf16" else torch.float32


def build_trainer(stage: TrainStage, mesh: Mesh, vocabulary_rows: int) -> Trainer:
    """Network, initial weights, optimizer and engine.

    Raises:
        CheckFailedError: DeepSpeed built another optimizer than the one with fp32 gradient accumulation.
    """
    import deepspeed

    training = stage.training
    network = BloomPipeline(mesh, stage.model, training, vocabulary_rows)
    initialize(network, mesh, stage.model, vocabulary_rows, stage.seed)
    if training.precision == "bf16":
        # Before the optimizer is built over them: its groups must hold the parameters that train.
        network.to(torch.bfloat16)
    optimizer = build_optimizer(network, training.optimizer, stage.model, vocabulary_rows)
    with contextlib.redirect_stdout(io.StringIO()):
        engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=deepspeed_json(training))
    _assert_promised(engine, training.precision)
    return Trainer(engine, network, mesh, stage, vocabulary_rows)


def _assert_promised(engine: Any, precision: str) -> None:
    built, promised = type(engine.optimizer).__name__, EXPECTED_WRAPPER[precision]
    if built != promised:
        raise CheckFailedError(
            f"DeepSpeed built {built} for precision {precision}", where="deepspeed.initialize", expected=promised
        )
    if precision == "bf16" and engine.optimizer.grad_acc_dtype is not torch.float32:
        raise CheckFailedError(
            f"gradients accumulate in {engine.optimizer.grad_acc_dtype}",
            where="deepspeed.initialize",
            expected="torch.float32",
        )
