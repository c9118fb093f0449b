"""Keep the two copies of a tied weight, in the first and the last stage, equal bit for bit.

DeepSpeed 0.19's pipeline does not keep the copies equal and gives no warning, for two reasons:

- fp16 with fp32 accumulation: ZeRO moves each gradient from `grad` to `grad_accum`. The pipeline reads `grad`, finds
  None, and does not sum the gradients of the copies.
- The position of the weight in ZeRO's flat buffers differs between the stages. So sums over three or more replicas and
  the optimizer's arithmetic round differently.

This module sums the gradients where ZeRO stores them. After each update it copies the first stage's weight to the last
stage. The fp32 master weights and moments of a tied weight in the last stage may differ from those in the first stage
in their last bits. Those in the last stage are unused.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def keep_tied_weights_equal(engine: Any) -> None:
    """Make `engine` sum the gradients of tied weights before an update, and copy the updated weight afterwards."""
    from deepspeed.runtime.pipe.engine import PipelineEngine
    from deepspeed.runtime.pipe.schedule import OptimizerStep, ReduceTiedGrads

    def update(self: Any) -> None:
        PipelineEngine._exec_optimizer_step(self)
        self.module._synchronize_tied_weights()

    # The instruction table belongs to the class, so give this engine a table of its own.
    engine._INSTRUCTION_MAP = {
        **engine._INSTRUCTION_MAP,
        ReduceTiedGrads: _sum_gradients,
        OptimizerStep: update,
    }


def _sum_gradients(engine: Any) -> None:
    """Sum the gradients of each tied weight over the stages that share it."""
    for weight, stages in engine.module.get_tied_weights_and_groups():
        gradient = _accumulated(engine, weight)
        if gradient is not None:
            dist.all_reduce(gradient, group=stages)


def _accumulated(engine: Any, weight: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a weight from the optimizer, summed over all micro-batches.

    Return None if the weight has no gradient.
    """
    if engine.using_bf16_optimizer:
        kept: torch.Tensor | None = getattr(weight, "_hp_grad", None)
        return kept
    gradient: torch.Tensor | None = engine.optimizer.get_gradient_for_reduction(weight)
    return gradient
