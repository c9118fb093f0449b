"""Compare the planned activation bytes with those that each rank of a tensor-parallel group saves."""

from __future__ import annotations

import pytest
from fabricated_training import stage
from ranks import run_ranks

from bloomery.config.stages import TrainStage
from bloomery.spec.memory import activation_bytes


def run_of(sequence_parallel: bool) -> TrainStage:
    raw = stage(precision="fp32").model_dump(mode="json")
    raw["model"] |= {"heads": 4, "hidden_size": 128, "sequence_length": 128}
    raw["training"] |= {
        "precision": "bf16",
        "parallel": {"tensor": 2, "sequence_parallel": sequence_parallel},
        "batch": {"micro_batch_size": 2, "global_batch_size": 4},
        "activation_checkpointing": "none",
        "kernels": {"attention": "sdpa"},
    }
    return TrainStage.model_validate(raw)


def saved_bytes(sequence_parallel: bool) -> int:
    """Return the bytes that a block saves for its backward pass, without parameters and shared tensors."""
    import torch

    from training.model.block import TransformerBlock
    from training.model.dropout import DropoutNumbers
    from training.model.kernels import kernels_here
    from training.parallel.mesh import build_mesh

    run = run_of(sequence_parallel)
    mesh = build_mesh(run.training.parallel)
    kernels = kernels_here(run.model, run.training, mesh.device)
    dropout = DropoutNumbers(run.training.dropout, mesh.device)
    block = TransformerBlock(mesh, run.model, run.training, kernels, 2, dropout).to(torch.bfloat16)
    length = run.model.sequence_length // (2 if sequence_parallel else 1)
    x = torch.randn(2, length, run.model.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    passes: list[dict[int, torch.UntypedStorage]] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        passes[-1][storage.data_ptr()] = storage
        return tensor

    outputs = []
    for _ in range(2):
        passes.append({})
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs.append(block(x))
    # The tensors that both passes save are the parameters, ALiBi's bias and the input x. Of these, only x is an
    # activation.
    own = sum(storage.nbytes() for place, storage in passes[1].items() if place not in passes[0])
    return own + x.untyped_storage().nbytes()


@pytest.mark.distributed
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_each_rank_saves_the_planned_activation_bytes(sequence_parallel: bool) -> None:
    run = run_of(sequence_parallel)
    for found in run_ranks(saved_bytes, 2, sequence_parallel):
        assert found == pytest.approx(activation_bytes(run.model, run.training), rel=0.02)
