"""Compare the planned activation bytes with those that a real block keeps for its backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_training import stage
from torch.profiler import ProfilerActivity, profile

from bloomery.config.stages import TrainStage
from bloomery.spec.memory import activation_bytes, selective_bytes
from training.parallel import products

BLOOM: dict[str, Any] = {}
LLAMA_LIKE: dict[str, Any] = {"positions": "rotary", "activation": "swiglu"}
UNSTABLE: dict[str, Any] = {"stable_attention": False}
EAGER = {"kernels": {"attention": "eager"}}
DROPOUT = {"dropout": {"attention": 0.1, "hidden": 0.1}}


def _kept(mesh: Any, run: TrainStage) -> tuple[int, int]:
    """Return the bytes that a forward pass keeps, including the input but not the output, and the input's bytes."""
    from training.model.block import TransformerBlock
    from training.model.dropout import DropoutNumbers
    from training.model.kernels import kernels_here

    dtype = torch.bfloat16 if run.training.precision == "bf16" else torch.float32
    kernels = kernels_here(run.model, run.training, mesh.device)
    dropout = DropoutNumbers(run.training.dropout, mesh.device)
    block = TransformerBlock(mesh, run.model, run.training, kernels, 2, dropout).to(dtype)
    shape = run.training.batch.micro_batch_size, run.model.sequence_length, run.model.hidden_size
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    with dropout.step(1, 1, [range(len(x))]):
        dropout.next_micro_batch()
        # The first call creates the tensors that all blocks share: ALiBi's bias or the rotation.
        block(x)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            y = block(x)
    assert y.requires_grad
    left = sum(event.self_cpu_memory_usage for event in seen.key_averages())
    return left - y.nbytes + x.nbytes, x.nbytes


@pytest.mark.parametrize(
    ("precision", "length", "micro", "changes", "training"),
    [
        ("bf16", 128, 2, BLOOM, {}),
        ("fp32", 64, 3, BLOOM, {}),
        ("bf16", 128, 2, LLAMA_LIKE, {}),
        ("bf16", 128, 2, UNSTABLE, {}),
        ("bf16", 128, 2, BLOOM, EAGER),
        ("bf16", 128, 2, BLOOM, EAGER | DROPOUT),
        ("fp32", 64, 2, LLAMA_LIKE, EAGER | DROPOUT),
    ],
)
def test_a_block_keeps_the_planned_activation_bytes(
    mesh: Any,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    length: int,
    micro: int,
    changes: dict[str, Any],
    training: dict[str, Any],
) -> None:
    # The plan is for devices with 16-bit instructions. Other CPUs keep products in fp32 with `selective`.
    monkeypatch.setattr(products, "_is_slow", lambda dtype, device: False)
    found: dict[str, tuple[int, int]] = {}
    for what in ("none", "selective", "full"):
        raw = stage(precision="fp32").model_dump(mode="json")
        raw["model"] |= {"heads": 4, "hidden_size": 128, "sequence_length": length, **changes}
        raw["training"] |= {
            "precision": precision,
            "parallel": {},
            "activation_checkpointing": what,
            "kernels": {"attention": "sdpa"},
        } | training
        raw["training"]["batch"] = {"micro_batch_size": micro, "global_batch_size": 4 * micro}
        run = TrainStage.model_validate(raw)
        found[what] = _kept(mesh, run)
    assert found["none"][0] == pytest.approx(activation_bytes(run.model, run.training), rel=0.02)
    assert found["selective"][0] == pytest.approx(selective_bytes(run.model, run.training), rel=0.02)
    # The numbers of dropout are kept, too: two for each place and sample.
    assert found["full"][0] - found["full"][1] == (8 * micro * 8 if "dropout" in training else 0)
