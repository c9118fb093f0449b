"""Save states as files that DeepSpeed's tools can load, without importing DeepSpeed."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import torch

from bloomery.checkpoint.files import DynamicScaler, Fragment, Scaler
from bloomery.checkpoint.map_tensors import map_tensors

_NAMES: dict[Any, tuple[str, str]] = {
    Fragment: ("deepspeed.utils.tensor_fragment", "fragment_address"),
    Scaler: ("deepspeed.runtime.fp16.loss_scaler", "LossScaler"),
    DynamicScaler: ("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"),
}
"""Module and name of the DeepSpeed class that each placeholder stands for."""


class _Pickler(pickle._Pickler):
    """Pickler that writes the names of DeepSpeed's classes for their placeholders.

    It is Python's own implementation, because the implementation in C does not let a subclass write another name.
    """

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if obj not in _NAMES:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        module, own = _NAMES[obj]
        self.write(pickle.GLOBAL + f"{module}\n{own}\n".encode("ascii"))  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]


_PICKLE = SimpleNamespace(Pickler=_Pickler, __name__="pickle")


def save_state(state: Any, handle: Any) -> None:
    """Write nested containers of tensors and plain data to an open file with `torch.save`.

    Placeholders (`bloomery.checkpoint.files.Fragment`, `Scaler`) are saved as DeepSpeed's classes. Equal states give
    equal bytes.
    """

    def own(tensor: torch.Tensor) -> torch.Tensor:
        # `torch.save` would write the whole buffer of a view.
        return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()

    torch.save(map_tensors(state, own, lambda value: value), handle, pickle_module=_PICKLE)
