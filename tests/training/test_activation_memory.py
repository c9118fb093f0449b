"""The plan's count of activation bytes is what the real block saves for its backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_training import stage

from bloomery.config.stages import TrainStage
from bloomery.plan.memory import activation_bytes


@pytest.mark.parametrize(("precision", "length", "micro"), [("bf16", 128, 2), ("fp32", 64, 3)])
def test_what_a_block_saves(mesh: Any, precision: str, length: int, micro: int) -> None:
    from training.model.alibi import attention_bias
    from training.model.block import TransformerBlock

    raw = stage(precision="fp32").model_dump(mode="json")
    raw["model"] |= {"heads": 4, "hidden_size": 128, "sequence_length": length}
    raw["training"] |= {"precision": precision, "parallel": {}}
    raw["training"]["batch"] = {"micro_batch_size": micro, "global_batch_size": 4 * micro}
    run = TrainStage.model_validate(raw)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    block = TransformerBlock(mesh, run.model).to(dtype)
    x = torch.randn(micro, length, run.model.hidden_size, dtype=dtype, requires_grad=True)
    bias = attention_bias(4, 0, 4, length, dtype, x.device)
    known = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    known.add(bias.untyped_storage().data_ptr())
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = block(x)
        y.sum().backward()
    planned = activation_bytes(run.model, run.training)
    assert sum(saved.values()) == pytest.approx(planned, rel=0.02)
