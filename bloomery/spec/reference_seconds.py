"""Estimate the seconds that a save takes to compute the reference of the checkpoint.

The training waits while replica 0 computes the reference (`training.checkpoint.reference_logits`). The reference needs
the forward pass in fp32 for all its positions. The stages compute different samples at the same time, so b samples pass
p stages in the time of b + p - 1 samples on one stage.

For BLOOM-176B on A100 GPUs, a sample of 2,048 tokens takes 2,048 x 2 x 176e9 / (12 stages x 4 GPUs x 19.5e12 x 0.761)
= 1.0 s on one stage, and 8 samples and the batch of short samples take (9 + 12 - 1) x 1.0 s = 20 s. Sending activations
and making the summaries take less than 1 s and are left out: 2,048 x 14,336 x 4 bytes for each sample and stage, and
two passes over 16 GB of logits in the GPU's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.spec.checkpoint_size import summary_shape
from bloomery.spec.flops import iteration_flops
from bloomery.spec.hardware import gpus
from bloomery.spec.parameters import planned_rows

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_EFFICIENCY = 0.761
"""Share of a GPU's fp32 peak that large matrix products reach. This is an assumption: the share of the 16-bit peak
(`bloomery.spec.duration.KERNEL_EFFICIENCY`)."""
_FORWARD_SHARE = 1 / 3
"""Share of the forward pass in the operations of an iteration without recomputation."""


def reference_seconds(config: RunConfig) -> float:
    """Return the estimated seconds to compute the reference in each save. Return 0 if no GPU is configured.

    The number of validation sets is not needed, because the number of positions hardly depends on it. More samples of
    fewer tokens also take less time to pass the stages.
    """
    if config.plan.gpu is None:
        return 0.0
    gpu, parallel = gpus()[config.plan.gpu], config.training.parallel
    samples, length = summary_shape(0, config.model.sequence_length)
    flops = _FORWARD_SHARE * iteration_flops(
        config.model, planned_rows(config), 1, recomputed=False, sequence_length=length
    )
    turn = flops / (parallel.pipeline * parallel.tensor * gpu.fp32_tflops * 1e12 * _EFFICIENCY)
    # The batch of short samples counts as one more sample.
    return (samples + 1 + parallel.pipeline - 1) * turn
