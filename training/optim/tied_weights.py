"""Keep the copies of tied weights, one in the first stage and one in the last, equal bit for bit.

DeepSpeed 0.19's pipeline does not, and says nothing:

- fp16 with fp32 accumulation: ZeRO moves each gradient from `grad` to `grad_accum`; the pipeline looks at `grad`, finds
  none, and does not sum the copies' gradients.
- Where a weight lies in the flat buffers of ZeRO differs between the stages, and with it how sums over three replicas
  or more, and the optimizer's arithmetic, are rounded.

So the gradients are summed where they really are, and after each update the first stage's weight is the truth. The
other copy's fp32 master weights and moments may differ in their last bits; nothing reads them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def keep_tied_weights_equal(engine: Any) -> None:
    """Make `engine`'s steps sum the gradients of tied weights and hand the updated weight to its copy."""
    from deepspeed.runtime.pipe.engine import PipelineEngine
    from deepspeed.runtime.pipe.schedule import OptimizerStep, ReduceTiedGrads

    def update(self: Any) -> None:
        PipelineEngine._exec_optimizer_step(self)
        self.module._synchronize_tied_weights()

    # The engine looks its instructions up in this table, which belongs to the class.
    engine._INSTRUCTION_MAP = {
        **engine._INSTRUCTION_MAP,
        ReduceTiedGrads: _sum_gradients,
        OptimizerStep: update,
    }


def _sum_gradients(engine: Any) -> None:
    for weight, stages in engine.module.get_tied_weights_and_groups():
        gradient = _accumulated(engine, weight)
        if gradient is not None:
            dist.all_reduce(gradient, group=stages)


def _accumulated(engine: Any, weight: torch.Tensor) -> torch.Tensor | None:
    """The gradient of all micro-batches, where the engine's optimizer keeps it; None: there was none."""
    if engine.using_bf16_optimizer:
        kept: torch.Tensor | None = getattr(weight, "_hp_grad", None)
        return kept
    gradient: torch.Tensor | None = engine.optimizer.get_gradient_for_reduction(weight)
    return gradient
