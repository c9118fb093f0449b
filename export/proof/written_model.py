"""Compute with transformers' own modules over the written weight files, with the weights of one block in memory.

The model is built on torch's meta device. Transformers prepares the input of the first block (embeddings, positions,
masks). Then each block gets its weights, computes all samples and releases its weights. All blocks use the same memory.
While a block computes, the system reads the weights of the next block from the disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bloomery.base.return_memory import return_memory
from bloomery.spec.export_resources import batch_size
from bloomery.spec.placement import Parameter
from bloomery.spec.transformers_families.family import HEAD, Family
from export.proof.forward_model import Observe, slice_rows
from export.proof.written_weights import Weights
from export.transform import to_training
from export.transformers_model import check_tensors, empty_model


class _FirstBlockReachedError(Exception):
    """Ends transformers' forward pass before its first block, with the arguments that the block would get."""

    def __init__(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.options = arguments, options


class _FirstBlock(nn.Module):
    """Module that replaces the blocks, and ends the forward pass when it is called."""

    def forward(self, *arguments: Any, **options: Any) -> None:
        raise _FirstBlockReachedError(arguments, options)


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
    arguments: tuple[Any, ...]
    options: dict[str, Any]


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
        self._model.set_submodule(family.blocks, nn.ModuleList([_FirstBlock()]))
        self._model.set_submodule(_module(self._words), _Lookup(self._weights, self._words))
        self._final_norm = self._model.get_submodule(_module(self._targets["ln_f.weight"].name))
        self._load_small_modules()

    def _load_small_modules(self) -> None:
        """Load the modules outside of the blocks, except embedding and head: LayerNorms and learned positions."""
        inside = {self._words, self._head}
        for name, target in self._targets.items():
            if target.name not in inside and not name.startswith("h."):
                module = self._model.get_submodule(_module(target.name))
                _set(module, target.name.rpartition(".")[2], self._weights.tensor(target.name))

    @torch.no_grad()
    def hidden(self, samples: Sequence[torch.Tensor], observe: Observe | None = None) -> list[torch.Tensor]:
        """Compute the output of the final LayerNorm for each sample: int64 [length] -> fp32 [length, hidden]."""
        hooks = _Hooks(self._family, self._targets, self._heads, observe)
        with hooks.on(self._model, ""):
            passes = [self._before_blocks(samples, numbers, hooks) for numbers in _batches(samples)]
        for number, block in self._loaded_blocks():
            with hooks.on(block, self._path(number)):
                for each in passes:
                    hooks.samples = each.samples
                    found = block(each.hidden, *each.arguments, **each.options)
                    each.hidden = found[0] if isinstance(found, tuple) else found
        states: dict[int, torch.Tensor] = {}
        with hooks.on(self._model, ""):
            for each in passes:
                hooks.samples = each.samples
                states |= zip(each.samples, self._final_norm(each.hidden), strict=True)
        return [states[number] for number in range(len(samples))]

    def head_slices(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of the head's matrix."""
        return self._weights.slices(self._head, slice_rows(self._weights.shapes[self._head][1]))

    def _before_blocks(self, samples: Sequence[torch.Tensor], numbers: list[int], hooks: _Hooks) -> _Pass:
        """Return the input of the first block for the samples with these numbers, which have one length."""
        hooks.samples = numbers
        try:
            self._model.base_model(input_ids=torch.stack([samples[each] for each in numbers]), use_cache=False)
        except _FirstBlockReachedError as reached:
            return _Pass(numbers, reached.arguments[0], reached.arguments[1:], reached.options)
        raise AssertionError("transformers did not call the first block")

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


class _Hooks:
    """Reports the outputs of the modules that have weights, by their canonical names."""

    def __init__(self, family: Family, targets: dict[str, Any], heads: int, observe: Observe | None) -> None:
        self.samples: list[int] = []
        self._observe, self._heads = observe, heads
        self._modules = {_module(target.name): _module(name) for name, target in targets.items()}
        self._bias = {_module(name): target.transform for name, target in targets.items() if name.endswith(".bias")}

    @contextlib.contextmanager
    def on(self, root: nn.Module, prefix: str) -> Iterator[None]:
        """Report the outputs of the modules in `root`, whose path in the model is `prefix`, within the context."""
        handles = []
        if self._observe is not None:
            for path, module in root.named_modules():
                if (name := self._modules.get(prefix + path)) is not None:
                    handles.append(module.register_forward_hook(self._hook(name)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str) -> Any:
        def report(_module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            assert self._observe is not None
            for place, sample in enumerate(self.samples):
                # Learned positions have one output for all samples.
                value = output[min(place, len(output) - 1)]
                if (transform := self._bias.get(name)) is not None:
                    value = to_training(value.t(), transform, self._heads).t()
                self._observe(name, sample, value)

        return report


def _module(name: str) -> str:
    """Return the module of a parameter's name."""
    return name.rpartition(".")[0]


def _set(module: nn.Module, name: str, value: torch.Tensor) -> None:
    setattr(module, name, nn.Parameter(value, requires_grad=False))


def _with_buffers(model: nn.Module, config: Any) -> Any:
    """Return `model` with real buffers. Its modules with buffers, such as rotary positions, are built again."""
    for path, module in list(model.named_modules()):
        if any(True for _ in module.buffers(recurse=False)):
            kind: Any = type(module)
            model.set_submodule(path, kind(config=config))
    return model
