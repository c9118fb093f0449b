"""Copy LAMB's updated weights of earlier parameter groups to the network.

ZeRO's wrapper (fp16, fp32) goes through the parameter groups. It calls the optimizer's `step` for one group and copies
this group's fp32 weights to the weights of the network. LAMB updates all groups in the last call, so the copies of the
earlier groups must be made again. BF16_Optimizer makes one call for all groups, and copies later.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from training.optim.lamb import Lamb


def copy_weights_of_earlier_groups(engine: Any) -> None:
    """Make LAMB copy the weights of earlier groups. Other optimizers are left as they are."""
    wrapper = engine.optimizer
    optimizer = wrapper.optimizer
    if not isinstance(optimizer, Lamb):
        return

    def copy(groups: list[int]) -> None:
        for number in groups:
            replica = dist.get_rank(group=wrapper.real_dp_process_group[number])
            own = wrapper.parallel_partitioned_bit16_groups[number][replica]
            own.data.copy_(wrapper.single_partition_of_fp32_groups[number].data)

    optimizer.copy_weights = copy
