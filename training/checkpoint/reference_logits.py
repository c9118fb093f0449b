"""Compute the reference of a checkpoint: fp32 logits of the training model for fixed tokens, by its parallel layers.

An export and a resumed training are compared with the reference (`bloomery.checkpoint.reference`). One layer's weights
at a time are cast to fp32, and all samples pass through it. Activations are sent from stage to stage, and the last
stage gathers the logits over the vocabulary.
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
from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
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

    The validation sets take turns, until there are `SUMMARY_SAMPLES` longer samples. A run without validation sets uses
    training samples.
    """
    length, count = min(REFERENCE_LENGTH, sequence_length), min(REFERENCE_SAMPLES, reader.train_samples)
    tokens = torch.from_numpy(np.stack([reader.train(number)[:length] for number in range(count)]))
    sizes = {name: reader.validation_samples(name) for name in reader.validation_names}
    read: list[tuple[str, Callable[[], np.ndarray]]] = [
        (name, partial(reader.validation, name, number))
        for number in range(min(SUMMARY_SAMPLES, max(sizes.values(), default=0)))
        for name, size in sizes.items()
        if number < size
    ]
    if not read:
        read = [
            ("train", partial(reader.train, number)) for number in range(min(SUMMARY_SAMPLES, reader.train_samples))
        ]
    long = [(name, torch.from_numpy(sample()[:sequence_length])) for name, sample in read[:SUMMARY_SAMPLES]]
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
    maker = SummaryMaker(tokens, entries)
    for positions in chunks_of(len(tokens), trainer.vocabulary_rows):
        whole = gather_vocabulary(logits[positions.start : positions.stop].contiguous(), trainer.mesh.tensor_group)
        if first:
            maker.add(positions, 0, whole.cpu())
    return maker.summary() if first else None


@torch.no_grad()
def _forward(trainer: Trainer, batches: Sequence[torch.Tensor], read_out: Callable[[int, torch.Tensor], None]) -> None:
    """Compute the local fp32 logits of batches of tokens, int64 [samples, length] each. Collective over replica 0.

    On the last stage of replica 0, `read_out` gets the number and the logits [samples, padded length, local rows] of
    each batch, one after another.
    """
    mesh, network = trainer.mesh, trainer.network
    if mesh.data_rank != 0:
        return
    # Pad to a length that sequence parallelism can split. Attention is causal, so padding at the end changes no logits.
    # Without sequence parallelism, padding could exceed the number of learned positions.
    parts = mesh.tensor_size if mesh.sequence_parallel else 1
    xs = [functional.pad(tokens.to(mesh.device), (0, -tokens.shape[1] % parts)) for tokens in batches]
    # Use the same pairs of ranks as DeepSpeed's pipeline, so that NCCL creates no additional communicators.
    if not mesh.is_first_stage:
        xs = [torch.empty(network.boundary_shape(len(x), x.shape[1]), device=mesh.device) for x in xs]
        for x in xs:
            dist.recv(x, mesh.rank_of(pipeline=mesh.pipeline_rank - 1, data=0, tensor=mesh.tensor_rank))
    layers = list(zip(network.forward_funcs, network.local_modules().values(), strict=True))
    head = layers.pop() if mesh.is_last_stage else None
    # Blocks are compiled for the data type and length of training. Run them in eager mode here.
    with torch.compiler.set_stance("force_eager"):
        for function, module in layers:
            with _in_fp32(module):
                xs = [function(x) for x in xs]
        if head is not None:
            function, module = head
            with _in_fp32(module):
                for number, x in enumerate(xs):
                    read_out(number, function(x))
            return
    for x in xs:
        dist.send(x.contiguous(), mesh.rank_of(pipeline=mesh.pipeline_rank + 1, data=0, tensor=mesh.tensor_rank))


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
