"""NVIDIA's apex is called as it wants to be, and a training goes on with or without it.

Its kernels run on GPUs alone: what its documentation says of them stands for it here, computed by torch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from fabricated_training import make_index, stage
from ranks import run_ranks
from torch.nn import functional
from torch.optim.adamw import adamw

from bloomery.config.stages import TrainStage
from bloomery.config.training import OptimizerConfig

HIDDEN = 32
ROWS, LENGTH, BATCH = 512, 32, 4
ENDS = (2, 4, 6)
"""Steps at which a training ends and another kernel goes on."""


class FusedAdam(torch.optim.Optimizer):
    """`apex.optimizers.FusedAdam`: each group counts its updates, and a parameter's state is made when it is empty."""

    def __init__(
        self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
        weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True, capturable: bool = False,
        master_weights: bool = False,
    ) -> None:  # fmt: skip
        # What the arithmetic below is of.
        assert (bias_correction, adam_w_mode, amsgrad, capturable, master_weights) == (True, True, False, False, False)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for weight in group["params"]:
                state = self.state[weight]
                if len(state) == 0:
                    state.update(exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
                lists: list[list[torch.Tensor]] = [[weight], [weight.grad], [state["exp_avg"]], [state["exp_avg_sq"]]]
                before, (beta1, beta2) = torch.tensor(group["step"] - 1.0), group["betas"]
                numbers = {key: group[key] for key in ("lr", "eps", "weight_decay")}
                adamw(*lists, [], [before], amsgrad=False, beta1=beta1, beta2=beta2, maximize=False, **numbers)


FusedAdam.__module__ = "apex.optimizers.fused_adam"


def fused_layer_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, normalized_shape: tuple[int, ...],
    eps: float = 1e-6, memory_efficient: bool = False,
) -> torch.Tensor:  # fmt: skip
    """That of `apex.normalization.fused_layer_norm`, which takes tensors of one type and computes in fp32 inside."""
    assert input.dtype == weight.dtype == bias.dtype
    assert not memory_efficient
    return functional.layer_norm(input, normalized_shape, weight, bias, eps)


def _modules() -> dict[str, ModuleType]:
    optimizers, norm = ModuleType("apex.optimizers"), ModuleType("apex.normalization.fused_layer_norm")
    optimizers.FusedAdam = FusedAdam  # type: ignore[attr-defined]
    norm.fused_layer_norm_affine = fused_layer_norm_affine  # type: ignore[attr-defined]
    return {module.__name__: module for module in (optimizers, norm)}


@pytest.fixture
def apex(monkeypatch: pytest.MonkeyPatch) -> None:
    """An apex that computes with torch."""
    for name, module in _modules().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("apex")
@pytest.mark.parametrize("handed", [False, True], ids=["own", "handed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_layer_norm_of_apex_is_that_of_torch(mesh: Any, dtype: torch.dtype, handed: bool) -> None:
    """With its own weight and bias, or with those that a block hands over; an epsilon that is no default."""
    from training.model.norm import LayerNorm

    layers = [LayerNorm(mesh, HIDDEN, 0.25, fused).to(dtype) for fused in (True, False)]
    random, calls, results = torch.Generator().manual_seed(3), [], []
    x, weight, bias = (torch.randn(*shape, generator=random) for shape in ((2, 5, HIDDEN), (HIDDEN,), (HIDDEN,)))
    assert layers[0].kernel is fused_layer_norm_affine
    layers[0].kernel = lambda *given: calls.append(given) or fused_layer_norm_affine(*given)
    for layer in layers:
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        given = x.to(dtype).requires_grad_()
        affine = (layer.weight * 2, layer.bias + 1) if handed else ()
        found = layer(given, *affine)
        found.float().square().sum().backward()
        results.append([found, given.grad, layer.weight.grad, layer.bias.grad])
    for fused, plain in zip(*results, strict=True):
        assert fused.dtype is dtype
        torch.testing.assert_close(fused, plain, rtol=0, atol=0)
    ((_, _, _, shape, epsilon),) = calls
    assert (tuple(shape), epsilon) == ((HIDDEN,), 0.25)


def _updates(kernel: str, updates: int, gone_on: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
    """An Adam after so many more updates of two groups, on the gradients of their squares."""
    from training.optim.builder import build_optimizer, set_step_count

    optimizer = OptimizerConfig(learning_rate=0.1, beta1=0.7, beta2=0.8, epsilon=0.01)
    weights = [torch.nn.Parameter(torch.linspace(-1.0, 2.0, size)) for size in (64, 8)]
    decays = (0.5, 0.0)
    groups = [{"params": [weight], "weight_decay": decay} for weight, decay in zip(weights, decays, strict=True)]
    built = build_optimizer(groups, optimizer, kernel)
    if gone_on is not None:
        # As from a checkpoint of another layout: weights, moments, then the number of updates.
        for here, there in zip(weights, (group["params"][0] for group in gone_on.param_groups), strict=True):
            here.data.copy_(there.data)
            built.state[here].update({key: gone_on.state[there][key].clone() for key in ("exp_avg", "exp_avg_sq")})
        set_step_count(built, 3)
    for _ in range(updates):
        for weight in weights:
            weight.grad = 2.0 * weight.detach()
        built.step()
    return built


def _weights(optimizer: torch.optim.Optimizer) -> torch.Tensor:
    return torch.cat([weight.detach() for group in optimizer.param_groups for weight in group["params"]])


@pytest.mark.usefixtures("apex")
def test_adam_of_apex_is_that_of_torch() -> None:
    """All its numbers are the configuration's, none a default; each goes on where the other one stopped."""
    right, fused = _updates("torch", 3), _updates("apex", 3)
    assert isinstance(fused, FusedAdam)
    torch.testing.assert_close(_weights(fused), _weights(right), rtol=0, atol=0)
    further = _weights(_updates("torch", 5))
    for kernel, other in (("apex", right), ("torch", fused), ("apex", fused)):
        torch.testing.assert_close(_weights(_updates(kernel, 2, other)), further, rtol=0, atol=0)


@pytest.mark.usefixtures("apex")
def test_adam_of_apex_counts_in_its_groups() -> None:
    from training.optim.builder import set_step_count

    built = _updates("apex", 2)
    set_step_count(built, 7)
    built.step()
    assert [group["step"] for group in built.param_groups] == [8, 8]
    assert all(state.keys() == {"exp_avg", "exp_avg_sq"} for state in built.state.values())


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
    """Losses, norms and weights of each training, which goes on from its checkpoints with its next configuration."""
    import numpy as np
    from deepspeed.runtime.zero import utils
    from whole_model import weights

    from bloomery.base.installed import Apex
    from bloomery.contracts.index import read_index_manifest
    from bloomery.contracts.sample_reader import SampleReader
    from bloomery.spec.choose_kernels import MachineFacts
    from bloomery.spec.position import Position
    from training.checkpoint.checkpoint_manager import CheckpointManager
    from training.checkpoint.reference_logits import reference_tokens
    from training.loop.build_engine import build_trainer
    from training.model import kernels
    from training.model.norm import LayerNorm
    from training.parallel.mesh import build_mesh

    sys.modules.update(_modules())
    # DeepSpeed does so where it finds apex when it is imported.
    utils.ZERO_SUPPORTED_OPTIMIZERS.append(FusedAdam)
    here = MachineFacts(cuda=True, capability=(9, 0), apex=Apex.REAL)
    kernels.MachineFacts = SimpleNamespace(here=lambda **_: here)  # type: ignore[misc,assignment]
    mesh, reader = build_mesh(trainings[0][0].training.parallel), SampleReader(folder / "index")
    index, tokens = read_index_manifest(folder / "index/index.json"), reference_tokens(reader, LENGTH)
    samples = torch.from_numpy(np.stack([reader.train(sample) for sample in range(ENDS[-1] * BATCH)]))

    def run(number: int, stages: list[TrainStage]) -> dict[str, Any]:
        curve = []
        for configuration, last in zip(stages, ENDS[-len(stages) :], strict=True):
            trainer = build_trainer(configuration, mesh, ROWS)
            taken = configuration.training.kernels.optimizer != "torch"
            assert isinstance(trainer.engine.optimizer.optimizer, FusedAdam) is taken
            norms = [module for module in trainer.network.modules() if isinstance(module, LayerNorm)]
            assert [norm.kernel for norm in norms] == [fused_layer_norm_affine if taken else None] * 6
            checkpoints = CheckpointManager(trainer, folder / str(number), "this training", index, tokens)
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
def test_a_training_goes_on_with_and_without_apex(tmp_path: Path) -> None:
    """Bit for bit: begun with apex, loaded without it, then with it, which `auto` takes for LayerNorms and Adam."""
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
