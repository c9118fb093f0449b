"""Compute the reference of a checkpoint: fp32 logits of the training model for fixed tokens, by its parallel layers.

An export and a resumed training are compared with the reference (`bloomery.checkpoint.reference`). One layer's weights
at a time are cast to fp32. Each sample is sent to the next stage as soon as a stage has computed it, so the stages
compute different samples at the same time. The last stage gathers the logits over the vocabulary.

Every save computes the reference before the training continues. For BLOOM (176 B parameters, 12 stages of 4 A100 GPUs,
16,384 positions), this takes about 20 s (`bloomery.spec.reference_seconds`):

- Without overlap of the stages, the matrix products alone would take 97 s, because only 4 GPUs would compute at a time.
- To cast its weights to fp32 for one of the 9 batches, a GPU reads 7.3 GB and writes 14.7 GB. At 1.5 TB/s this takes
  0.02 s.
- The logits take 16 GB and their summaries 4.4 MB. The GPU makes the summaries. One thread of a CPU needs about 27 s
  for them (measured), and the copy of the logits takes more time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from bloomery.checkpoint.reference import LongSample, Reference, Summary, SummaryMaker, chunks_of
from bloomery.contracts.sample_reader import SampleReader
from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, summary_shape
from training.loop.build_engine import Trainer
from training.parallel.layers import gather_vocabulary


@dataclass(frozen=True)
class ReferenceSamples:
    """Tokens for which the reference is computed."""

    tokens: torch.Tensor
    """Beginnings of training samples, int64 [samples, length]. The reference holds all their logits."""
    long: tuple[tuple[str, torch.Tensor], ...] = ()
    """Name of the validation set and tokens (int64 [length]) of longer samples. The reference summarises their
    logits."""


def reference_samples(reader: SampleReader, sequence_length: int) -> ReferenceSamples:
    """Return the samples of a run's reference.

    The validation sets take turns, until there are as many longer samples as `summary_shape` plans. Every set has at
    least one. A run without validation sets uses training samples.
    """
    length, count = min(REFERENCE_LENGTH, sequence_length), min(REFERENCE_SAMPLES, reader.train_samples)
    tokens = torch.from_numpy(np.stack([reader.train(number)[:length] for number in range(count)]))
    sizes = {name: size for name in reader.validation_names if (size := reader.validation_samples(name))}
    wanted, long_length = summary_shape(len(sizes), sequence_length)
    read: list[tuple[str, Callable[[], np.ndarray]]] = [
        (name, partial(reader.validation, name, number))
        for number in range(min(wanted, max(sizes.values(), default=0)))
        for name, size in sizes.items()
        if number < size
    ]
    if not read:
        read = [("train", partial(reader.train, number)) for number in range(min(wanted, reader.train_samples))]
    long = [(name, torch.from_numpy(sample()[:long_length])) for name, sample in read[:wanted]]
    return ReferenceSamples(tokens, tuple(long))


def compute_reference(trainer: Trainer, samples: ReferenceSamples, entries: int) -> Reference | None:
    """Compute the reference of the trainer's network. Collective over replica 0. `entries` is the tokenizer's size.

    Return the reference on tensor rank 0 of the last stage of replica 0, and None on every other rank.
    """
    batches = [samples.tokens, *(tokens[None] for _, tokens in samples.long)]
    results: list[torch.Tensor] = []
    summaries: list[Summary | None] = []

    def read_out(number: int, logits: torch.Tensor) -> None:
        if number == 0:
            results.append(_gathered(trainer, logits, samples.tokens.shape[1]).cpu())
        else:
            summaries.append(_summary(trainer, logits[0], samples.long[number - 1][1], entries))

    _forward(trainer, batches, read_out)
    if not results or trainer.mesh.tensor_rank != 0:
        return None
    long = [
        LongSample(name, tokens, summary)
        for (name, tokens), summary in zip(samples.long, summaries, strict=True)
        if summary is not None
    ]
    return Reference(samples.tokens, results[0].contiguous(), tuple(long))


def reference_logits(trainer: Trainer, tokens: torch.Tensor) -> torch.Tensor | None:
    """Compute the fp32 logits [samples, length, vocabulary_rows] of `tokens`. Collective over replica 0.

    Return the logits on the last stage of replica 0, and None on every other rank.
    """
    results: list[torch.Tensor] = []
    _forward(trainer, [tokens], lambda _, logits: results.append(_gathered(trainer, logits, tokens.shape[1])))
    return results[0] if results else None


def _gathered(trainer: Trainer, logits: torch.Tensor, length: int) -> torch.Tensor:
    """Gather local logits [samples, padded length, local rows] over the vocabulary, and drop the padding."""
    return gather_vocabulary(logits, trainer.mesh.tensor_group)[:, :length]


def _summary(trainer: Trainer, logits: torch.Tensor, tokens: torch.Tensor, entries: int) -> Summary | None:
    """Return the summary of local logits [padded length, local rows] on tensor rank 0, and None on the others."""
    first = trainer.mesh.tensor_rank == 0
    maker = SummaryMaker(tokens, entries, trainer.mesh.device)
    for positions in chunks_of(len(tokens), trainer.vocabulary_rows):
        whole = gather_vocabulary(logits[positions.start : positions.stop].contiguous(), trainer.mesh.tensor_group)
        if first:
            maker.add(positions, 0, whole)
    return maker.summary() if first else None


@torch.no_grad()
def _forward(trainer: Trainer, batches: Sequence[torch.Tensor], read_out: Callable[[int, torch.Tensor], None]) -> None:
    """Compute the local fp32 logits of batches of tokens, int64 [samples, length] each. Collective over replica 0.

    On the last stage of replica 0, `read_out` gets the number and the logits [samples, padded length, local rows] of
    each batch, one after another. Each batch is sent to the next stage before the next batch is computed, so that all
    stages compute at the same time.
    """
    mesh, network = trainer.mesh, trainer.network
    if mesh.data_rank != 0:
        return
    # Pad to a length that sequence parallelism can split. Attention is causal, so padding at the end changes no logits.
    # Without sequence parallelism, padding could exceed the number of learned positions.
    parts = mesh.tensor_size if mesh.sequence_parallel else 1
    layers = list(zip(network.forward_funcs, network.local_modules().values(), strict=True))
    # Blocks are compiled for the data type and length of training. Run them in eager mode here.
    with torch.compiler.set_stance("force_eager"):
        for number, tokens in enumerate(batches):
            x = functional.pad(tokens.to(mesh.device), (0, -tokens.shape[1] % parts))
            # Use the same pairs of ranks as DeepSpeed's pipeline, so that NCCL creates no additional communicators.
            if not mesh.is_first_stage:
                x = torch.empty(network.boundary_shape(*x.shape), device=mesh.device)
                dist.recv(x, mesh.rank_of(pipeline=mesh.pipeline_rank - 1, data=0, tensor=mesh.tensor_rank))
            for function, module in layers:
                with _in_fp32(module):
                    x = function(x)
            if mesh.is_last_stage:
                read_out(number, x)
            else:
                dist.send(
                    x.contiguous(), mesh.rank_of(pipeline=mesh.pipeline_rank + 1, data=0, tensor=mesh.tensor_rank)
                )


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
