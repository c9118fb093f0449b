"""Compute reference logits: fp32 logits of the training model on a fixed batch, through its own parallel layers.

An export and a resumed training are verified against these logits. One layer's weights at a time are cast to fp32.
Activations are sent from stage to stage, and the last stage gathers the logits over the vocabulary.
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
from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES
from training.loop.build_engine import Trainer
from training.parallel.layers import gather_vocabulary


def reference_tokens(reader: SampleReader, sequence_length: int) -> torch.Tensor:
    """Return the first tokens of the first training samples, int64 [samples, length]."""
    length, count = min(REFERENCE_LENGTH, sequence_length), min(REFERENCE_SAMPLES, reader.train_samples)
    return torch.from_numpy(np.stack([reader.train(number)[:length] for number in range(count)]))


@torch.no_grad()
def reference_logits(trainer: Trainer, tokens: torch.Tensor) -> torch.Tensor | None:
    """Compute the fp32 logits [samples, length, vocabulary_rows] of `tokens`. Collective over replica 0.

    Return the logits on the last stage of replica 0, and None on every other rank.
    """
    mesh, network = trainer.mesh, trainer.network
    if mesh.data_rank != 0:
        return None
    samples, length = tokens.shape
    # Pad to a length that sequence parallelism can split. Attention is causal, so padding at the end changes no logits.
    x = functional.pad(tokens.to(mesh.device), (0, -length % mesh.tensor_size))
    # Use the same pairs of ranks as DeepSpeed's pipeline, so that NCCL creates no additional communicators.
    if not mesh.is_first_stage:
        x = torch.empty(network.boundary_shape(samples, x.shape[1]), device=mesh.device)
        dist.recv(x, mesh.rank_of(pipeline=mesh.pipeline_rank - 1, data=0, tensor=mesh.tensor_rank))
    for function, module in zip(network.forward_funcs, network.local_modules().values(), strict=True):
        # Blocks are compiled for the data type and length of training. Run them in eager mode here.
        with _in_fp32(module), torch.compiler.set_stance("force_eager"):
            x = function(x)
    if not mesh.is_last_stage:
        dist.send(x.contiguous(), mesh.rank_of(pipeline=mesh.pipeline_rank + 1, data=0, tensor=mesh.tensor_rank))
        return None
    return gather_vocabulary(x, mesh.tensor_group)[:, :length]


@contextlib.contextmanager
def _in_fp32(module: nn.Module) -> Iterator[None]:
    """Cast a layer's weights to fp32 within the context, and restore the original weights afterwards."""
    kept = [(parameter, parameter.data) for parameter in module.parameters()]
    try:
        for parameter, data in kept:
            parameter.data = data.float()
        yield
    finally:
        for parameter, data in kept:
            parameter.data = data
