"""Reference logits: what the training model itself says on fixed batches, in fp32, through its own split layers.

An export proves itself against them, and so does a training that goes on from a checkpoint. One layer's weights at a
time are cast to fp32; activations travel from stage to stage point to point; the last stage gathers the vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from bloomery.contracts.sample_reader import SampleReader
from training.loop.build_engine import Trainer
from training.parallel.layers import gather_vocabulary

SAMPLES = 2
LENGTH = 64
"""Small on purpose: for 250,880 rows, 2 x 64 x 250,880 x 4 bytes = 128 MB."""


def reference_tokens(reader: SampleReader, sequence_length: int) -> torch.Tensor:
    """The first tokens of the first training samples, int64 [samples, length]."""
    length, count = min(LENGTH, sequence_length), min(SAMPLES, reader.train_samples)
    return torch.from_numpy(np.stack([reader.train(number)[:length] for number in range(count)]))


@torch.no_grad()
def reference_logits(trainer: Trainer, tokens: torch.Tensor) -> torch.Tensor | None:
    """fp32 logits [samples, length, vocabulary_rows] on the last stage of replica 0, None elsewhere. Collective."""
    mesh, network = trainer.mesh, trainer.network
    if mesh.data_rank != 0:
        return None
    samples, length = tokens.shape
    # To a length that sequence parallelism can split; what stands behind a token does not change its logits.
    x = functional.pad(tokens.to(mesh.device), (0, -length % mesh.tensor_size))
    # As DeepSpeed sends activations: over the same pairs of ranks, so NCCL makes no further communicator for it.
    if not mesh.is_first_stage:
        x = torch.empty(network.boundary_shape(samples, x.shape[1]), device=mesh.device)
        dist.recv(x, mesh.rank_of(pipeline=mesh.pipeline_rank - 1, data=0, tensor=mesh.tensor_rank))
    for function, module in zip(network.forward_funcs, network.local_modules().values(), strict=True):
        # Compiled blocks are compiled for training's type and length: this once they run as they are.
        with _in_fp32(module), torch.compiler.set_stance("force_eager"):
            x = function(x)
    if not mesh.is_last_stage:
        dist.send(x.contiguous(), mesh.rank_of(pipeline=mesh.pipeline_rank + 1, data=0, tensor=mesh.tensor_rank))
        return None
    return gather_vocabulary(x, mesh.tensor_group)[:, :length]


@contextlib.contextmanager
def _in_fp32(module: nn.Module) -> Iterator[None]:
    """Cast a layer's weights to fp32 for the moment."""
    kept = [(parameter, parameter.data) for parameter in module.parameters()]
    try:
        for parameter, data in kept:
            parameter.data = data.float()
        yield
    finally:
        for parameter, data in kept:
            parameter.data = data
