"""Compute with transformers' own modules over the written weight files, with the weights of one block in memory.

The model is built on torch's meta device. Transformers prepares the input of the first block (embeddings, positions,
masks). Then each block gets its weights, computes all samples and releases its weights. All blocks use the same memory.
A block computes a long sample span by span (see `export.proof.block_input`). Meanwhile the system reads the weights of
the next block from the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bloomery.base.return_memory import return_memory
from bloomery.spec.placement import Parameter
from bloomery.spec.proof_memory import SPAN_POSITIONS, batch_size
from bloomery.spec.transformers_families.family import HEAD, Family
from export.proof.block_input import FirstBlock, Span, block_input
from export.proof.forward_model import Observe, slice_rows
from export.proof.module_outputs import ModuleOutputs, module_of
from export.proof.written_weights import Weights
from export.transformers_model import check_tensors, empty_model

if TYPE_CHECKING:
    from export.proof.block_cache import BlockCache


class _Lookup(nn.Module):
    """Token embedding that reads only the rows of its tokens."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        self._weights, self._name = weights, name

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self._weights.rows(self._name, tokens.flatten())
        return found.view(*tokens.shape, found.shape[1])


@dataclass
class _Pass:
    """State of some samples of one length between two blocks."""

    samples: list[int]
    """Numbers of the samples."""
    hidden: torch.Tensor
    """[samples, length, hidden]."""
    spans: list[Span]
    """Spans of the samples. Batches of the same shape share these objects."""


class WrittenModel:
    """A model of transformers, read from the files of its folder (see `export.proof.forward_model.ForwardModel`)."""

    def __init__(
        self, weights: Weights, config: Any, family: Family, parameters: Sequence[Parameter], heads: int
    ) -> None:
        """Build the model of `config` without weights, and check the names and shapes of the written tensors.

        Args:
            weights: the weights in the folder.
            config: configuration of the model in transformers.
            family: table of the model's family.
            parameters: declared parameters of the network.
            heads: number of attention heads.

        Raises:
            CheckFailedError: there are other tensors than those of the model in transformers.
        """
        self._weights = weights
        check_tensors(config, weights.shapes)
        self._family, self._heads = family, heads
        self._targets = {each.name: family.target(each) for each in parameters}
        self._words = self._targets["word_embeddings.weight"].name
        self._head = self._words if config.tie_word_embeddings else HEAD
        self._model = _with_buffers(empty_model(config), config)
        self._blocks: list[nn.Module] = list(self._model.get_submodule(family.blocks))
        self._model.set_submodule(family.blocks, nn.ModuleList([FirstBlock()]))
        self._model.set_submodule(module_of(self._words), _Lookup(self._weights, self._words))
        self._final_norm = self._model.get_submodule(module_of(self._targets["ln_f.weight"].name))
        self._load_small_modules()

    def _load_small_modules(self) -> None:
        """Load the modules outside of the blocks, except embedding and head: LayerNorms and learned positions."""
        inside = {self._words, self._head}
        for name, target in self._targets.items():
            if target.name not in inside and not name.startswith("h."):
                module = self._model.get_submodule(module_of(target.name))
                _set(module, target.name.rpartition(".")[2], self._weights.tensor(target.name))

    @torch.no_grad()
    def hidden(self, samples: Sequence[torch.Tensor], observe: Observe | None = None) -> list[torch.Tensor]:
        """Compute the output of the final LayerNorm for each sample: int64 [length] -> fp32 [length, hidden]."""
        from export.proof.block_cache import BlockCache

        outputs, cache = ModuleOutputs(self._targets, self._heads, observe), BlockCache()
        with outputs.on(self._model, ""):
            passes = self._before_blocks(samples, outputs, cache)
        for number, block in self._loaded_blocks():
            with outputs.on(block, self._path(number)):
                for each in passes:
                    for span in each.spans:
                        outputs.begin(each.samples, last=span is each.spans[-1])
                        cache.earlier = span.positions.start
                        found = block(each.hidden[:, span.positions], *span.arguments, **span.options)
                        # No later span needs this input of the block any more.
                        each.hidden[:, span.positions] = found[0] if isinstance(found, tuple) else found
        states: dict[int, torch.Tensor] = {}
        with outputs.on(self._model, ""):
            while passes:
                each = passes.pop(0)
                outputs.begin(each.samples)
                states |= zip(each.samples, self._final_norm(each.hidden), strict=True)
        return [states[number] for number in range(len(samples))]

    def head_slices(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of the head's matrix."""
        return self._weights.slices(self._head, slice_rows(self._weights.shapes[self._head][1]))

    def _before_blocks(self, samples: Sequence[torch.Tensor], outputs: ModuleOutputs, cache: BlockCache) -> list[_Pass]:
        """Return the state of all samples before the first block."""
        passes = []
        spans: dict[torch.Size, list[Span]] = {}
        for numbers in _batches(samples):
            tokens = torch.stack([samples[each] for each in numbers])
            begin = partial(outputs.begin, numbers)
            hidden, own = block_input(self._model.base_model, tokens, cache, SPAN_POSITIONS, begin)
            # Masks and positions depend only on the shape of the tokens.
            passes.append(_Pass(numbers, hidden, spans.setdefault(tokens.shape, own)))
        return passes

    def _loaded_blocks(self) -> Iterator[tuple[int, nn.Module]]:
        """Yield the number of each block and the block with its weights, which it has until the next block."""
        memory: dict[str, torch.Tensor] = {}
        for number, block in enumerate(self._blocks):
            for name in self._names_in(number):
                memory[name] = self._weights.tensor(self._path(number, name), memory.get(name))
            if number + 1 < len(self._blocks):
                self._weights.expect([self._path(number + 1, name) for name in self._names_in(number + 1)])
            block.load_state_dict(memory, assign=True, strict=False)
            try:
                yield number, block
            finally:
                block.to("meta")
                return_memory(sum(each.nbytes for each in memory.values()))

    def _names_in(self, number: int) -> list[str]:
        return [name for name, _ in self._blocks[number].named_parameters()]

    def _path(self, number: int, name: str = "") -> str:
        """Return the name of a block's tensor in the model, or the beginning of all these names."""
        return f"{self._family.blocks}.{number}.{name}"


def _batches(samples: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the numbers of the samples in batches of samples of one length."""
    lengths: dict[int, list[int]] = {}
    for number, sample in enumerate(samples):
        lengths.setdefault(len(sample), []).append(number)
    return [
        numbers[start : start + batch_size(length)]
        for length, numbers in lengths.items()
        for start in range(0, len(numbers), batch_size(length))
    ]


def _set(module: nn.Module, name: str, value: torch.Tensor) -> None:
    setattr(module, name, nn.Parameter(value, requires_grad=False))


def _with_buffers(model: nn.Module, config: Any) -> Any:
    """Return `model` with real buffers. Its modules with buffers, such as rotary positions, are built again."""
    for path, module in list(model.named_modules()):
        if any(True for _ in module.buffers(recurse=False)):
            kind: Any = type(module)
            model.set_submodule(path, kind(config=config))
    return model
