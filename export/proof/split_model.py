"""Compute with the weights of each tensor rank, as the training does: each rank computes its part, and the parts are
added. These unmerged weights are called the pieces of the checkpoint.

This forward pass uses no code of transformers and no merged weight. It shows where a wrong export differs, and it is
the reference of checkpoints that have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch.nn import functional

from bloomery.base.return_memory import return_memory
from bloomery.spec.proof_memory import BATCH_POSITIONS, SPAN_POSITIONS
from export.proof.forward_model import Observe, slice_rows

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.spec.placement import Parameter


_States = dict[int, torch.Tensor]
"""State [length, features] of each sample, by its number."""


class Pieces(Protocol):
    """A checkpoint whose parameters are split over tensor ranks."""

    model: ModelConfig
    parameters: list[Parameter]
    ranks: int

    def shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank."""
        ...

    def close(self) -> None:
        """Close the files of the layer that was read last."""
        ...


class SplitModel:
    """A network that computes with the pieces of each rank (see `export.proof.forward_model.ForwardModel`)."""

    def __init__(self, pieces: Pieces) -> None:
        """Prepare to read the pieces. The network must be a GPT."""
        self._pieces, self._model = pieces, pieces.model
        self._parameters = {each.name: each for each in pieces.parameters}
        self._memory = torch.empty(0)
        self._block_bytes = 4 * sum(each.count for each in pieces.parameters if each.name.startswith("h.0."))

    @torch.no_grad()
    def hidden(self, samples: Sequence[torch.Tensor], observe: Observe | None = None) -> list[torch.Tensor]:
        """Compute the output of the final LayerNorm for each sample: int64 [length] -> fp32 [length, hidden]."""
        report = observe or _ignore
        states = {sample: self._embed(tokens, sample, report) for sample, tokens in enumerate(samples)}
        groups = _groups([len(tokens) for tokens in samples])
        for block in range(self._model.layers):
            for step in (self._attention, self._feed_forward):
                for group in groups:
                    states |= step(f"h.{block}", {sample: states[sample] for sample in group}, report)
            self._pieces.close()
            return_memory(self._block_bytes)
        return [self._norm("ln_f", states[sample], sample, report) for sample in range(len(samples))]

    def head_slices(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of the head's matrix."""
        shards = self._shards("word_embeddings.weight" if self._model.tied_embeddings else "lm_head.weight")
        first, rows = 0, slice_rows(self._model.hidden_size)
        for shard in shards:
            for start in range(0, len(shard), rows):
                part = shard[start : start + rows].float()
                yield first, part
                first += len(part)

    def _shards(self, name: str) -> list[torch.Tensor]:
        return self._pieces.shards(self._parameters[name])

    def _replica(self, name: str) -> torch.Tensor:
        """Return a replicated parameter in fp32."""
        return self._shards(name)[0].float()

    def _matrix(self, weight: torch.Tensor) -> torch.Tensor:
        """Return a matrix in fp32. It is valid until the next matrix is requested, because all use the same memory."""
        if weight.numel() > len(self._memory):
            self._memory = torch.empty(weight.numel())
        return self._memory[: weight.numel()].view(weight.shape).copy_(weight)

    def _embed(self, tokens: torch.Tensor, sample: int, report: Observe) -> torch.Tensor:
        """Return the input of the first block, [length, hidden]."""
        x = torch.zeros(len(tokens), self._model.hidden_size)
        first = 0
        for shard in self._shards("word_embeddings.weight"):
            here = ((tokens >= first) & (tokens < first + len(shard))).nonzero().flatten()
            x[here] = shard[tokens[here] - first].float()
            first += len(shard)
        report("word_embeddings", sample, x)
        if self._model.embedding_layernorm:
            x = self._norm("word_embeddings_layernorm", x, sample, report)
        if self._model.positions == "learned":
            positions = self._replica("position_embeddings.weight")[: len(tokens)]
            report("position_embeddings", sample, positions)
            x = x + positions
        return x

    def _norm(self, name: str, x: torch.Tensor, sample: int, report: Observe) -> torch.Tensor:
        weight, bias = self._replica(f"{name}.weight"), self._replica(f"{name}.bias")
        found = functional.layer_norm(x, (x.shape[-1],), weight, bias, self._model.layer_norm_epsilon)
        report(name, sample, found)
        return found

    def _attention(self, block: str, states: _States, report: Observe) -> _States:
        """Add the output of self-attention to each state."""
        normed = self._normed(f"{block}.input_layernorm", states, report)
        name = f"{block}.self_attention"
        fused = self._column(f"{name}.query_key_value", normed, report)
        mixed = {sample: [self._mix(part, rank) for rank, part in enumerate(parts)] for sample, parts in fused.items()}
        return _added(states, self._row(f"{name}.dense", mixed, report))

    def _feed_forward(self, block: str, states: _States, report: Observe) -> _States:
        """Add the output of the feed-forward layer to each state."""
        normed = self._normed(f"{block}.post_attention_layernorm", states, report)
        wide = self._column(f"{block}.mlp.dense_h_to_4h", normed, report)
        active = {sample: [self._activate(part) for part in parts] for sample, parts in wide.items()}
        return _added(states, self._row(f"{block}.mlp.dense_4h_to_h", active, report))

    def _normed(self, name: str, states: _States, report: Observe) -> _States:
        return {sample: self._norm(name, x, sample, report) for sample, x in states.items()}

    def _column(self, name: str, states: _States, report: Observe) -> dict[int, list[torch.Tensor]]:
        """Return the output [length, features of the rank] of each rank, for each state."""
        found: dict[int, list[torch.Tensor]] = {sample: [] for sample in states}
        weights, biases = self._shards(f"{name}.weight"), self._shards(f"{name}.bias")
        for weight, bias in zip(weights, biases, strict=True):
            matrix, vector = self._matrix(weight), bias.float()
            for sample, x in states.items():
                found[sample].append(functional.linear(x, matrix, vector))
        for sample, parts in found.items():
            report(name, sample, torch.cat(parts, dim=-1))
        return found

    def _row(self, name: str, inputs: dict[int, list[torch.Tensor]], report: Observe) -> _States:
        """Return the sum over the ranks, plus the bias, for the inputs [length, features of the rank] of each state."""
        found: _States = {}
        for rank, weight in enumerate(self._shards(f"{name}.weight")):
            matrix = self._matrix(weight)
            for sample, parts in inputs.items():
                part = functional.linear(parts[rank], matrix)
                found[sample] = found[sample] + part if rank else part
        bias = self._replica(f"{name}.bias")
        for sample in found:
            found[sample] = found[sample] + bias
            report(name, sample, found[sample])
        return found

    def _activate(self, x: torch.Tensor) -> torch.Tensor:
        if self._model.activation == "swiglu":
            gate, up = x[:, 0::2], x[:, 1::2]
            return functional.silu(gate) * up
        return functional.gelu(x, approximate="tanh")

    def _mix(self, fused: torch.Tensor, rank: int) -> torch.Tensor:
        """Compute attention from one rank's queries, keys and values: [length, 3 x features] -> [length, features]."""
        size = self._model.head_size
        length = len(fused)
        query, key, value = fused.reshape(length, -1, 3, size).movedim(1, 0).unbind(dim=-2)
        if self._model.positions == "rotary":
            cosine, sine = _rotation(length, size, self._model.rotary_base)
            query, key = _rotated(query, cosine, sine), _rotated(key, cosine, sine)
        mixed = [
            self._mix_span(query[:, start : start + SPAN_POSITIONS], key, value, start, rank)
            for start in range(0, length, SPAN_POSITIONS)
        ]
        return torch.cat(mixed, dim=1).movedim(0, 1).reshape(length, -1)

    def _mix_span(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, start: int, rank: int
    ) -> torch.Tensor:
        """Compute attention of the queries from position `start` on: [heads of the rank, queries, size]."""
        heads, count, size = query.shape
        scores = query @ key.transpose(-1, -2) / math.sqrt(size)
        distance = torch.arange(start, start + count)[:, None] - torch.arange(key.shape[1])[None]
        if self._model.positions == "alibi":
            slopes = torch.tensor(_slopes(self._model.heads)[rank * heads : (rank + 1) * heads])
            scores -= slopes[:, None, None] * distance
        scores.masked_fill_(distance < 0, -torch.inf)
        return scores.softmax(dim=-1) @ value


def _added(states: _States, outputs: _States) -> _States:
    """Return the sum of each state and its output."""
    return {sample: x + outputs[sample] for sample, x in states.items()}


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Return the numbers of samples of these lengths in groups that pass through a step at the same time.

    The samples of a group have at most `BATCH_POSITIONS` positions together. A longer sample is a group of its own.
    """
    groups: list[list[int]] = []
    room = 0
    for number, length in enumerate(lengths):
        if not groups or length > room:
            groups.append([])
            room = BATCH_POSITIONS
        groups[-1].append(number)
        room -= length
    return groups


def _ignore(name: str, sample: int, value: torch.Tensor) -> None:
    """Do nothing with the output of a module."""


def _slopes(heads: int) -> list[float]:
    """Return ALiBi's slope of each head (arXiv:2108.12409, section 3)."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    return slopes + [2.0 ** (-4 * (2 * head + 1) / power) for head in range(heads - power)]


def _rotation(length: int, size: int, base: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines of rotary positions (arXiv:2104.09864), [length, size] each."""
    frequencies = torch.pow(base, -torch.arange(0, size, 2) / size)
    angles = (torch.arange(length)[:, None] * frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs of features (i, i + size / 2) of [heads, length, size]."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine
