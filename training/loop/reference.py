"""Reference logits: what the training model itself says on fixed batches, in fp32, through its own split layers.

An export proves itself against them. The stage's weights are cast to fp32 for the moment; activations travel from stage
to stage point to point; the last stage gathers the vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file

from bloomery.base.atomic import atomic_path
from bloomery.contracts.samples import SampleReader
from training.loop.engine import Trainer
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
    parameters = list(network.parameters())
    kept = [parameter.data for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.data = parameter.data.float()
        x = tokens.to(mesh.device)
        if not mesh.is_first_stage:
            x = torch.empty(*tokens.shape, trainer.stage.model.hidden_size, device=mesh.device)
            dist.recv(x, mesh.rank_of(pipeline=mesh.pipeline_rank - 1, data=0, tensor=mesh.tensor_rank))
        for function in network.forward_funcs:
            x = function(x)
        if not mesh.is_last_stage:
            dist.send(x.contiguous(), mesh.rank_of(pipeline=mesh.pipeline_rank + 1, data=0, tensor=mesh.tensor_rank))
            return None
        return gather_vocabulary(x, mesh.tensor_group)
    finally:
        for parameter, data in zip(parameters, kept, strict=True):
            parameter.data = data


def save_reference(path: Path, trainer: Trainer, tokens: torch.Tensor) -> None:
    """Compute and write `tokens` and `logits`. Collective; one rank writes."""
    logits = reference_logits(trainer, tokens)
    if logits is not None and trainer.mesh.tensor_rank == 0:
        with atomic_path(path) as temporary:
            save_file({"tokens": tokens.contiguous(), "logits": logits.cpu().contiguous()}, temporary)
