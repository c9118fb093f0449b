"""Compare the planned number of a block's collectives with those that tensor-parallel ranks really call."""

from __future__ import annotations

import pytest
from fabricated_training import stage
from ranks import run_ranks

from bloomery.config.stages import TrainStage
from bloomery.spec.communication import reductions

CASES = [(what, split) for what in ("none", "selective", "full") for split in (False, True)]


def run_of(what: str, sequence_parallel: bool) -> TrainStage:
    raw = stage(precision="fp32").model_dump(mode="json")
    raw["training"] |= {
        "parallel": {"tensor": 2, "sequence_parallel": sequence_parallel},
        "batch": {"micro_batch_size": 2, "global_batch_size": 4},
        "activation_checkpointing": what,
    }
    return TrainStage.model_validate(raw)


def counted() -> list[dict[str, int]]:
    """Count gloo's collectives by kind in a block's forward and backward pass, for each case."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from training.model.block import TransformerBlock
    from training.model.dropout import DropoutNumbers
    from training.model.kernels import kernels_here
    from training.parallel.mesh import build_mesh

    found = []
    for what, split in CASES:
        run = run_of(what, split)
        mesh = build_mesh(run.training.parallel)
        kernels = kernels_here(run.model, run.training, mesh.device)
        dropout = DropoutNumbers(run.training.dropout, mesh.device)
        block = TransformerBlock(mesh, run.model, run.training, kernels, 2, dropout)
        length = run.model.sequence_length // (2 if split else 1)
        x = torch.randn(2, length, run.model.hidden_size, requires_grad=True)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            block(x).sum().backward()
        found.append({each.key: each.count for each in seen.key_averages() if each.key.startswith("gloo:")})
    return found


@pytest.mark.distributed
def test_a_block_calls_as_many_reductions_as_planned() -> None:
    for (what, split), found in zip(CASES, run_ranks(counted, 2)[0], strict=True):
        halves = 2 * found["gloo:all_reduce"]
        if split:
            # gloo implements reduce-scatter with an all-reduce. One additional small all-reduce sums the gradients of
            # LayerNorms and biases.
            halves = found["gloo:all_reduce"] - 1 + found["gloo:all_gather"]
        assert halves / 2 == reductions(run_of(what, split).training), (what, split)
