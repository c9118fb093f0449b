"""Test a training that resumes with NVIDIA's apex or without it: its losses are equal bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fabricated_training import make_index, stage
from fake_apex import FusedAdam, fused_layer_norm_affine, modules
from ranks import run_ranks

from bloomery.config.stages import TrainStage

ROWS, LENGTH, BATCH = 512, 32, 4
ENDS = (2, 4, 6)
"""Steps at which a training ends. It then resumes with other kernels."""


def _stage(kernels: str, precision: str) -> TrainStage:
    raw = stage(precision=precision).model_dump(mode="json")
    raw["training"] |= {
        "train_samples": ENDS[-1] * BATCH,
        "batch": {"micro_batch_size": 2, "global_batch_size": BATCH},
        "optimizer": {"learning_rate": 0.003, "schedule": "constant"},
        "kernels": {"attention": "sdpa", "layer_norm": kernels, "optimizer": kernels},
    }
    return TrainStage.model_validate(raw)


def _train(trainings: list[list[TrainStage]], folder: Path) -> list[dict[str, Any]]:
    """Return losses, norms and weights of each training.

    A training may have several configurations. Each one resumes from the checkpoint of the previous one.
    """
    import numpy as np
    from deepspeed.runtime.zero import utils
    from whole_model import weights

    from bloomery.base.installed import Apex
    from bloomery.contracts.index_manifest import read_index_manifest
    from bloomery.contracts.sample_reader import SampleReader
    from bloomery.spec.choose_kernels import MachineFacts
    from bloomery.spec.position import Position
    from training.checkpoint.checkpoint_manager import CheckpointManager
    from training.checkpoint.reference_logits import reference_samples
    from training.loop.build_engine import build_trainer
    from training.model import kernels
    from training.model.norm import LayerNorm
    from training.parallel.mesh import build_mesh

    sys.modules.update(modules())
    # DeepSpeed does this on import if apex is installed.
    utils.ZERO_SUPPORTED_OPTIMIZERS.append(FusedAdam)
    here = MachineFacts(cuda=True, capability=(9, 0), apex=Apex.REAL)
    kernels.MachineFacts = SimpleNamespace(here=lambda **_: here)  # type: ignore[misc,assignment]
    mesh, reader = build_mesh(trainings[0][0].training.parallel), SampleReader(folder / "index")
    index, references = read_index_manifest(folder / "index/index.json"), reference_samples(reader, LENGTH)
    samples = torch.from_numpy(np.stack([reader.train(sample) for sample in range(ENDS[-1] * BATCH)]))

    def run(number: int, stages: list[TrainStage]) -> dict[str, Any]:
        curve = []
        for configuration, last in zip(stages, ENDS[-len(stages) :], strict=True):
            trainer = build_trainer(configuration, mesh, ROWS)
            taken = configuration.training.kernels.optimizer != "torch"
            assert isinstance(trainer.engine.optimizer.optimizer, FusedAdam) is taken
            norms = [module for module in trainer.network.modules() if isinstance(module, LayerNorm)]
            assert [norm.kernel for norm in norms] == [fused_layer_norm_affine if taken else None] * 6
            checkpoints = CheckpointManager(trainer, folder / str(number), "this training", index, references)
            done = checkpoints.load().iteration
            for step in range(done, last):
                rows = samples[step * BATCH : (step + 1) * BATCH]
                micro_batches = [(each[:, :-1], each[:, 1:]) for each in rows.split(2)]
                curve.append((float(trainer.engine.train_batch(iter(micro_batches))), trainer.gate.norm))
            if last != ENDS[-1]:
                checkpoints.save(Position(last, last * BATCH, last * BATCH * LENGTH))
        return {"curve": curve, "weights": weights(trainer)}

    return [run(number, stages) for number, stages in enumerate(trainings)]


@pytest.mark.distributed
@pytest.mark.slow
def test_a_training_resumes_with_and_without_apex(tmp_path: Path) -> None:
    """The training starts with apex, resumes without it, and resumes with `auto`, which chooses apex."""
    make_index(tmp_path, ENDS[-1] * BATCH)
    trainings = [
        [_stage(kernels, precision) for kernels in changes]
        for precision in ("bf16", "fp32")
        for changes in (["torch"], ["apex", "torch", "auto"])
    ]
    (results,) = run_ranks(_train, 1, trainings, tmp_path)
    for right, found in (results[:2], results[2:]):
        assert len(right["curve"]) == ENDS[-1]
        assert found["curve"] == right["curve"]
        for name, weight in right["weights"].items():
            assert torch.equal(found["weights"][name], weight), name
