"""Build DeepSpeed's engine for a training configuration, and check that the engine matches the configuration."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import torch

from bloomery.config.stages import TrainStage
from bloomery.contracts.metrics_record import TrustRatios
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.deepspeed_json import deepspeed_json
from training.model.initialize import initialize
from training.model.pipeline import BloomPipeline
from training.optim.builder import build_optimizer, parameter_groups
from training.optim.earlier_groups import copy_weights_of_earlier_groups
from training.optim.lamb import Lamb
from training.optim.layer_ratios import layer_ratios
from training.optim.segment_map import segment_map
from training.optim.tied_weights import keep_tied_weights_equal
from training.optim.update_gate import UpdateGate
from training.optim.verify_engine import TYPES, verify_engine
from training.parallel.mesh import Mesh


@dataclass(frozen=True)
class Trainer:
    """DeepSpeed's engine, and the objects that it was built from."""

    engine: Any
    network: BloomPipeline
    mesh: Mesh
    stage: TrainStage
    vocabulary_rows: int
    gate: UpdateGate
    """Gate that decides whether to skip an update."""

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the weights that the network computes with."""
        return TYPES[self.stage.training.precision]

    def trust_ratios(self) -> TrustRatios | None:
        """Return the trust ratios of the last update by layer. None if the optimizer has none."""
        optimizer = self.engine.optimizer.optimizer
        ratios = optimizer.trust_ratios() if isinstance(optimizer, Lamb) else None
        return None if ratios is None else layer_ratios(optimizer.where.parameters, ratios)


def build_trainer(stage: TrainStage, mesh: Mesh, vocabulary_rows: int, *, with_initial_weights: bool = True) -> Trainer:
    """Build the network, the optimizer and the engine. Collective.

    Args:
        stage: configuration of the training.
        mesh: mesh of the training's layout.
        vocabulary_rows: number of embedding rows.
        with_initial_weights: whether to draw the initial weights. If false, the weights and their fp32 master weights
            have undefined values, and the caller must load a checkpoint or call `draw_initial_weights`.

    Raises:
        ConfigError: a kernel cannot run on this machine.
        CheckFailedError: DeepSpeed built an engine that differs from the configuration.
    """
    import deepspeed

    training = stage.training
    assert mesh.parallel == training.parallel
    network = BloomPipeline(mesh, stage.model, training, vocabulary_rows)
    # Convert the weights first, because the optimizer's groups must hold the converted parameters.
    network.to(TYPES[training.precision])
    groups = parameter_groups(network, training.optimizer, stage.model, vocabulary_rows)
    optimizer = build_optimizer(
        [dict(group) for group in groups],
        resolved_optimizer(training),
        network.kernels.optimizer,
        segment_map(stage, vocabulary_rows, mesh),
    )
    if training.precision == "fp16" and mesh.device.type == "cpu":
        _allow_fp16_on_cpu()
    _import_muon()
    with contextlib.redirect_stdout(io.StringIO()):
        engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=deepspeed_json(training))
    verify_engine(engine, training, groups, type(optimizer))
    keep_tied_weights_equal(engine)
    copy_weights_of_earlier_groups(engine)
    if training.precision == "fp16":
        # DeepSpeed would raise an error for an overflow at the minimum loss scale. The gate handles the overflow
        # instead, as it handles non-finite gradients in other precisions.
        engine.optimizer.loss_scaler.raise_error_at_min_scale = False
    trainer = Trainer(engine, network, mesh, stage, vocabulary_rows, UpdateGate(engine))
    if with_initial_weights:
        draw_initial_weights(trainer)
    return trainer


def draw_initial_weights(trainer: Trainer) -> None:
    """Set the weights and their fp32 master weights to the initial values. Call this before the first update."""
    initialize(trainer.network, trainer.mesh, trainer.stage.model, trainer.vocabulary_rows, trainer.stage.seed)


def _import_muon() -> None:
    """Import DeepSpeed's Muon module without torch's compiler, which would delay a rank's start by 1 s.

    DeepSpeed imports the module whatever the optimizer is.
    """
    from deepspeed.runtime import compiler

    compile_them = compiler.compile
    compiler.compile = lambda: lambda function: function
    try:
        import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
    finally:
        compiler.compile = compile_them


def _allow_fp16_on_cpu() -> None:
    """Make DeepSpeed accept fp16 on any CPU.

    DeepSpeed requires a CPU with fp16 arithmetic. torch computes fp16 on any CPU, slowly, which is enough for tests.
    """
    from deepspeed.accelerator import get_accelerator

    get_accelerator().is_fp16_supported = lambda: True
