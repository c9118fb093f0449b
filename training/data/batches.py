"""Which samples a rank reads. A batch's samples depend on the consumed count alone, never on the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

MicroBatch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and labels, int64 [micro_batch, sequence_length] each."""


def micro_batches(
    read: Callable[[int], npt.NDArray[np.int64]],
    first_sample: int,
    samples: int,
    micro_batch_size: int,
    data_rank: int,
    data_size: int,
) -> Iterator[MicroBatch]:
    """This replica's micro-batches of the global batch [first_sample, first_sample + samples).

    Micro-batch m of replica r starts at first_sample + (m * data_size + r) * micro_batch_size (Megatron's order).
    `read` gives the sequence_length + 1 tokens of a sample.
    """
    unit = micro_batch_size * data_size
    for start in range(first_sample + data_rank * micro_batch_size, first_sample + samples, unit):
        tokens = torch.from_numpy(np.stack([read(start + offset) for offset in range(micro_batch_size)]))
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
