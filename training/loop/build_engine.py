"""Build DeepSpeed's engine for a stage's configuration, and check that what was promised was built."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import torch

from bloomery.config.stages import TrainStage
from bloomery.spec.deepspeed_json import deepspeed_json
from training.model.initialize import initialize
from training.model.pipeline import BloomPipeline
from training.optim.builder import build_optimizer, parameter_groups
from training.optim.tied_weights import keep_tied_weights_equal
from training.optim.update_gate import UpdateGate
from training.optim.verify_engine import TYPES, verify_engine
from training.parallel.mesh import Mesh


@dataclass(frozen=True)
class Trainer:
    """DeepSpeed's engine with what it was built from."""

    engine: Any
    network: BloomPipeline
    mesh: Mesh
    stage: TrainStage
    vocabulary_rows: int
    gate: UpdateGate
    """Decides on each update; see there."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights in use."""
        return TYPES[self.stage.training.precision]


def build_trainer(stage: TrainStage, mesh: Mesh, vocabulary_rows: int) -> Trainer:
    """Network, initial weights, optimizer and engine. Collective.

    Raises:
        ConfigError: the optimizer is planned only.
        CheckFailedError: DeepSpeed built something else than the configuration promises.
    """
    import deepspeed

    training = stage.training
    assert mesh.parallel == training.parallel
    network = BloomPipeline(mesh, stage.model, training, vocabulary_rows)
    initialize(network, mesh, stage.model, vocabulary_rows, stage.seed)
    # Before the optimizer is built over them: its groups must hold the parameters that train.
    network.to(TYPES[training.precision])
    groups = parameter_groups(network, training.optimizer, stage.model, vocabulary_rows)
    optimizer = build_optimizer([dict(group) for group in groups], training.optimizer, network.kernels.optimizer)
    if training.precision == "fp16" and mesh.device.type == "cpu":
        _allow_fp16_on_cpu()
    _import_muon()
    with contextlib.redirect_stdout(io.StringIO()):
        engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=deepspeed_json(training))
    verify_engine(engine, training, groups, type(optimizer))
    keep_tied_weights_equal(engine)
    if training.precision == "fp16":
        # At the least scale an overflow is a gradient that is not finite: the gate's business, as in other precisions.
        engine.optimizer.loss_scaler.raise_error_at_min_scale = False
    return Trainer(engine, network, mesh, stage, vocabulary_rows, UpdateGate(engine))


def _import_muon() -> None:
    """DeepSpeed imports Muon for any optimizer, which would import torch's compiler: 1 s of a rank's start."""
    from deepspeed.runtime import compiler

    compile_them = compiler.compile
    compiler.compile = lambda: lambda function: function
    try:
        import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
    finally:
        compiler.compile = compile_them


def _allow_fp16_on_cpu() -> None:
    """DeepSpeed asks for a CPU with fp16 arithmetic; torch computes fp16 on any, slowly, which is right for tests."""
    from deepspeed.accelerator import get_accelerator

    get_accelerator().is_fp16_supported = lambda: True
