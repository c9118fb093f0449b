"""Report the outputs of the modules of a transformers model by the names and in the order of the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from export.proof.forward_model import Observe
from export.transform import to_training


class ModuleOutputs:
    """Reports the outputs of the modules that have weights, by their canonical names.

    The outputs of a sample's spans are collected, and the whole output is reported at the last span.
    """

    def __init__(self, targets: Mapping[str, Any], heads: int, observe: Observe | None) -> None:
        """Prepare to report to `observe`.

        Args:
            targets: tensor in transformers of each parameter, by canonical name.
            heads: number of attention heads.
            observe: function that gets each output; None to report nothing.
        """
        self._observe, self._heads = observe, heads
        self._modules = {module_of(target.name): module_of(name) for name, target in targets.items()}
        self._bias = {module_of(name): target.transform for name, target in targets.items() if name.endswith(".bias")}
        self._samples: Sequence[int] = ()
        self._last = True
        self._parts: dict[tuple[str, int], list[torch.Tensor]] = {}

    def begin(self, samples: Sequence[int], last: bool = True) -> None:
        """Begin a span of the samples with these numbers. `last` states whether it is their last span."""
        self._samples, self._last = samples, last

    @contextlib.contextmanager
    def on(self, root: nn.Module, prefix: str) -> Iterator[None]:
        """Report the outputs of the modules in `root`, whose path in the model is `prefix`, within the context."""
        handles = []
        if self._observe is not None:
            for path, module in root.named_modules():
                if (name := self._modules.get(prefix + path)) is not None:
                    handles.append(module.register_forward_hook(self._hook(name, self._observe)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str, observe: Observe) -> Any:
        def report(_module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            for place, sample in enumerate(self._samples):
                # Learned positions have one output for all samples.
                parts = self._parts.setdefault((name, sample), [])
                parts.append(output[min(place, len(output) - 1)])
                if not self._last:
                    continue
                value = torch.cat(self._parts.pop((name, sample)))
                if (transform := self._bias.get(name)) is not None:
                    value = to_training(value.t(), transform, self._heads).t()
                observe(name, sample, value)

        return report


def module_of(name: str) -> str:
    """Return the module of a parameter's name."""
    return name.rpartition(".")[0]
