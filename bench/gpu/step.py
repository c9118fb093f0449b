"""Measure seconds, TFLOP/s, MFU and memory of a training step on one device, ours or a peer's, and print one JSON.

    python bench/gpu/step.py --shape 1b3 --who ours --attention flex --compile
    python bench/gpu/step.py --shape 1b3 --who neox        # transformers' GPT-NeoX of the same shape with SDPA

All networks train in bf16 with fp32 master weights and fp32 sums of gradients over the micro-batches, on the same
random tokens. Model TFLOP/s count the operations without recomputation (bloomery.spec.flops: 3 passes, attention not
halved for causality). The values of networks of the same shape can therefore be compared, whatever each network
recomputes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "bench" / "gpu")]

from shapes import SHAPES, Shape  # noqa: E402

if TYPE_CHECKING:
    import torch

    from bloomery.config.stages import TrainStage

PEAK_TFLOPS = 989.0
"""Peak of H100 and H200 for dense bf16 (NVIDIA's data sheet)."""
WARM_UP, STEPS = 3, 8


def _stage(shape: Shape, options: argparse.Namespace) -> TrainStage:
    from bloomery.config.stages import TrainStage

    model = shape.model | {"positions": options.positions, "embedding_layernorm": options.positions == "alibi"}
    training = {
        "train_samples": 1 << 30,
        "batch": {
            "micro_batch_size": shape.micro_batch,
            "global_batch_size": shape.micro_batch * shape.micro_batches,
        },
        "optimizer": {"learning_rate": 1e-4},
        "activation_checkpointing": options.recompute,
        "kernels": {"attention": options.attention, "optimizer": options.optimizer, "compile": options.compile},
    }
    return TrainStage.model_validate({"name": "bench", "seed": 1, "model": model, "training": training})


def _ours(stage: TrainStage, shape: Shape) -> tuple[Callable[[Any], torch.Tensor], torch.device]:
    from training.loop.build_engine import build_trainer
    from training.loop.quiet_logging import quiet_logging
    from training.parallel.mesh import build_mesh

    quiet_logging()
    mesh = build_mesh(stage.training.parallel)
    trainer = build_trainer(stage, mesh, shape.rows)
    for group in trainer.engine.optimizer.param_groups:
        group["lr"] = stage.training.optimizer.learning_rate
    return lambda batches: trainer.engine.train_batch(iter(batches)), mesh.device


def _peer(
    who: str, stage: TrainStage, shape: Shape, compiled: bool
) -> tuple[Callable[[Any], torch.Tensor], torch.device]:
    import torch
    import transformers
    from _peer import PlainLoop

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    if who == "bloom":
        config = transformers.BloomConfig(
            vocab_size=shape.rows, hidden_size=shape.hidden, n_layer=shape.layers, n_head=shape.heads, use_cache=False
        )
        attention = "eager"  # transformers has no other attention with ALiBi
    else:
        config = transformers.GPTNeoXConfig(
            vocab_size=shape.rows,
            hidden_size=shape.hidden,
            intermediate_size=4 * shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            max_position_embeddings=shape.length,
            rotary_pct=1.0,
            use_parallel_residual=False,
            hidden_act="gelu_pytorch_tanh",
            tie_word_embeddings=True,
            use_cache=False,
        )
        attention = "sdpa"
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=attention, dtype=torch.bfloat16
        )
    loop = PlainLoop(model, stage.training.optimizer)
    if compiled:
        model.compile()
    return loop.step, device


def _environment() -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"python": sys.version.split()[0], "torch": torch.__version__}
    if torch.cuda.is_available():
        found |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure one variant, and return its result."""
    import torch
    from _peer import random_batches

    from bloomery.spec.flops import iteration_flops

    shape = SHAPES[options.shape]
    stage = _stage(shape, options)
    if options.who == "ours":
        step, device = _ours(stage, shape)
    else:
        step, device = _peer(options.who, stage, shape, options.compile)
    cuda = device.type == "cuda"
    batches = random_batches(shape.micro_batches, shape.micro_batch, shape.length, shape.rows, device)
    seconds, losses = [], []
    for number in range(WARM_UP + STEPS):
        if cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        loss = step(batches)
        losses.append(float(loss))  # waits for the device
        if cuda:
            torch.cuda.synchronize()
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - started)
    samples = shape.micro_batch * shape.micro_batches
    typical = statistics.median(seconds)
    tflops = iteration_flops(stage.model, shape.rows, samples, recomputed=False) / typical / 1e12
    return {
        "who": options.who,
        "shape": options.shape,
        "positions": options.positions if options.who == "ours" else {"bloom": "alibi", "neox": "rotary"}[options.who],
        "attention": options.attention if options.who == "ours" else {"bloom": "eager", "neox": "sdpa"}[options.who],
        "optimizer": options.optimizer if options.who == "ours" else "fused",
        "compile": options.compile,
        "recompute": options.recompute if options.who == "ours" else "none",
        "step_seconds": {"median": typical, "least": min(seconds), "greatest": max(seconds)},
        "tokens_per_second": samples * shape.length / typical,
        "model_tflops": tflops,
        "mfu": tflops / PEAK_TFLOPS if cuda else None,
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "first_loss": losses[0],
        "last_loss": losses[-1],
        **_environment(),
    }


def main() -> int:
    """Measure one variant, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), required=True)
    parser.add_argument("--who", choices=["ours", "bloom", "neox"], default="ours")
    parser.add_argument("--positions", choices=["alibi", "rotary", "learned"], default="alibi")
    parser.add_argument("--attention", default="auto")
    parser.add_argument("--optimizer", default="auto")
    parser.add_argument("--recompute", choices=["full", "selective", "none"], default="none")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.setdefault("MASTER_PORT", "29656")
    print(json.dumps(measure(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
