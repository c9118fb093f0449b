"""Dropout whose masks depend neither on the layout nor on the order of computation (Srivastava et al. 2014).

Whether an element is dropped is a function of the seed, the iteration, the sample, the layer, the place in the layer
and the element's number in the sample. Each rank computes the decisions about its own elements. It computes them again
in the backward pass and when activations are recomputed. So no mask is stored, and there is no state of a generator
that a checkpoint must save.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import lru_cache
from typing import Any

import torch

from bloomery.base import installed
from bloomery.config.training import DropoutConfig
from training.model.keep_mask import keep_mask
from training.parallel.mesh import Mesh

_LEVELS = 1 << 16
"""Number of possible values of a 16-bit random number."""
_SAMPLE_BITS = 44
_MOST_PLACES = 8
"""A stream has the number of a sample in its lowest 44 bits, then 3 bits for the place, and the layer above them."""


class Place(IntEnum):
    """Place in a layer at which elements are dropped."""

    EMBEDDING = 0
    """The activation before the first block."""
    ATTENTION = 1
    """The attention weights."""
    AFTER_ATTENTION = 2
    """The output of attention, before it is added to the residual stream."""
    AFTER_FEED_FORWARD = 3
    """The output of the feed-forward layer, before it is added to the residual stream."""


class DropoutNumbers:
    """Numbers that decide what is dropped in the current micro-batch. All layers of a stage share one object.

    Nothing is dropped outside of the context `step`.
    """

    def __init__(self, dropout: DropoutConfig, device: torch.device) -> None:
        self.attention, self.hidden = threshold(dropout.attention), threshold(dropout.hidden)
        """Thresholds for attention weights and for activations."""
        self._device = device
        self._key = 0
        self._micro_batches: Iterator[Sequence[int]] | None = None
        self._current: torch.Tensor | None = None

    @contextmanager
    def step(self, seed: int, iteration: int, micro_batches: Sequence[Sequence[int]]) -> Iterator[None]:
        """Drop elements in the forward passes within the context.

        Args:
            seed: seed of the run.
            iteration: number of the iteration.
            micro_batches: numbers of the samples of this replica's micro-batches, in the order of the forward passes.
        """
        self._key, self._micro_batches = _key(seed, iteration), iter(micro_batches)
        try:
            yield
        finally:
            self._micro_batches = self._current = None

    def next_micro_batch(self) -> None:
        """Take the numbers of the next micro-batch of a training step, whose forward pass begins."""
        if not self.attention and not self.hidden:
            return
        assert self._micro_batches is not None, "a training step with dropout needs the context `step`"
        rows = [(self._key, sample) for sample in next(self._micro_batches)]
        self._current = torch.tensor(rows, dtype=torch.int64).to(self._device, non_blocking=True)

    def of_layer(self, layer: int) -> torch.Tensor | None:
        """Return the key and the stream of each place and sample in a pipeline layer, int64 [places, batch, 2].

        Return None if nothing is dropped.
        """
        return None if self._current is None else self._current + _offsets(layer, self._device)


def threshold(probability: float) -> int:
    """Return the probability in units of 2^-16, rounded. An element is dropped if its 16-bit number is below it."""
    return min(_LEVELS - 1, round(probability * _LEVELS))


@lru_cache(maxsize=1024)
def _offsets(layer: int, device: torch.device) -> torch.Tensor:
    """Return the offsets of the key and of the stream of a sample for each place of a layer, int64 [places, 1, 2]."""
    rows = [[(0, layer * _MOST_PLACES + place << _SAMPLE_BITS)] for place in Place]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def _key(seed: int, iteration: int) -> int:
    """Return Philox's key of an iteration, as a signed 64-bit number."""
    digest = hashlib.blake2b(f"dropout {seed} {iteration}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def drop(
    x: torch.Tensor,
    numbers: torch.Tensor | None,
    place: Place,
    threshold: int,
    first: int = 0,
    causal: int = 0,
) -> torch.Tensor:
    """Set elements of x to 0 with the probability `threshold` / 2^16. Divide the others by the probability to keep one.

    Args:
        x: activation [batch, ..].
        numbers: numbers of the layer (`DropoutNumbers.of_layer`). None: nothing is dropped.
        place: place in the layer.
        threshold: threshold of the place.
        first: number of this rank's first element of a sample. The rank's elements of a sample are consecutive.
        causal: length of the square matrices [length, length] that a sample consists of, if their elements right of the
            diagonal are 0 and their gradients do not matter. 0 for other activations.
    """
    if numbers is None or threshold == 0:
        return x
    return _Drop.apply(x, numbers[place], threshold, first, causal)  # type: ignore[no-untyped-call,no-any-return]


def drop_activation(
    x: torch.Tensor, numbers: torch.Tensor | None, place: Place, threshold: int, mesh: Mesh
) -> torch.Tensor:
    """Apply `drop` to an activation [batch, length, hidden].

    With sequence parallelism, the activation is this rank's part of the sequence. Without it, all tensor-parallel ranks
    hold the same activation and drop the same elements.
    """
    first = mesh.tensor_rank * x.size(1) * x.size(2) if mesh.sequence_parallel else 0
    return drop(x, numbers, place, threshold, first)


class _Drop(torch.autograd.Function):
    """Autograd function of `drop`. The backward pass drops the same elements of the gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, numbers: torch.Tensor, threshold: int, first: int, causal: int
    ) -> torch.Tensor:
        ctx.save_for_backward(numbers)
        ctx.rest = threshold, first, causal
        return _dropped(x, numbers, threshold, first, causal)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        (numbers,) = ctx.saved_tensors
        return _dropped(grads[0], numbers, *ctx.rest), None, None, None, None


def _dropped(x: torch.Tensor, numbers: torch.Tensor, threshold: int, first: int, causal: int) -> torch.Tensor:
    """Return x with dropped elements. `numbers` holds the key and the stream of each sample, int64 [batch, 2]."""
    # Compiled code is specialised for the number of dimensions and for gradients, which are now equal in all calls.
    rows = x.detach().flatten(1)
    if torch.compiler.is_compiling():
        kept = _by_operations(rows, numbers, threshold, first)
    elif x.device.type == "cpu":
        kept = _by_kernel(rows, numbers, threshold, first, causal)
    else:
        run = _compiled() if installed.compiles_for_gpu() else _by_operations
        kept = run(rows, numbers, threshold, first)
    return kept.view_as(x)


def _scale(threshold: int) -> float:
    return _LEVELS / (_LEVELS - threshold)


def _by_operations(rows: torch.Tensor, numbers: torch.Tensor, threshold: int, first: int) -> torch.Tensor:
    """Drop elements of [batch, elements] by torch operations on any device."""
    kept = keep_mask(numbers, first, rows.size(1), threshold)
    factors = torch.where(kept, _scale(threshold), 0.0).to(torch.float32)
    return (rows.float() * factors).to(rows.dtype)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Return the compiled operations. They are one kernel, which stores no random numbers.

    Numbers of elements are variables in it, so that a curriculum does not compile it again for each length.
    """
    return torch.compile(_by_operations, dynamic=True)


def _by_kernel(x: torch.Tensor, numbers: torch.Tensor, threshold: int, first: int, causal: int = 0) -> torch.Tensor:
    """Drop elements of [batch, elements] by the compiled kernel on a CPU."""
    # A GPU does not need the kernel, so a checkout without compiled modules can train on one (bench/gpu).
    from training.model import _dropout

    rows = x.contiguous()
    if x.dtype is torch.float16:
        # The kernel has no fp16. The product in fp32, rounded once, is the product in fp16.
        rows = rows.float()
    out = torch.empty_like(rows)
    rest = numbers.numpy(), first, threshold, _scale(threshold), causal
    if rows.dtype is torch.bfloat16:
        _dropout.drop_bfloat16(rows.view(torch.uint16).numpy(), out.view(torch.uint16).numpy(), *rest)
    else:
        _dropout.drop_float(rows.numpy(), out.numpy(), *rest)
    return out.to(x.dtype)
