"""Copy the state of a rank to host memory, so that training can continue while a thread writes the copy.

Tensors of a GPU are copied to pinned memory, to which the GPU can write directly. So the copies run at the full speed
of the link between GPU and host, and the training waits only once, for all copies together. torch keeps released
pinned memory for the next save, so only the first save of a segment pins memory. torch rounds the size of each pinned
tensor up to a power of two.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from enum import Enum
from typing import Any

import torch

from bloomery.base.progress import say


class HostCopies:
    """Makes copies in host memory. The copies are complete after `wait`."""

    def __init__(self) -> None:
        self._streams: set[torch.cuda.Stream] = set()
        self._can_pin = True

    def add(self, state: Any) -> Any:
        """Return a copy of `state` that shares no memory with it. Tensors of a GPU may be incomplete before `wait`."""
        return _with_tensors(state, self._copied, copy.deepcopy)

    def wait(self) -> None:
        """Wait until every copy is complete. On a CPU, copies are complete at once."""
        for stream in self._streams:
            stream.synchronize()
        self._streams.clear()

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_cuda:
            self._streams.add(torch.cuda.current_stream(tensor.device))
        target = self.empty_like(tensor, pinned=tensor.is_cuda)
        # The training's next kernels on this stream start after the copy, so they cannot change what is copied.
        return target.copy_(tensor.detach(), non_blocking=True)

    def empty_like(self, tensor: torch.Tensor, *, pinned: bool) -> torch.Tensor:
        """Return uninitialized host memory for a copy of `tensor`.

        If memory cannot be pinned, for example because of a limit of the operating system, return ordinary memory. The
        training then waits until the tensor is copied, which takes longer.
        """
        if pinned and self._can_pin:
            try:
                return torch.empty_like(tensor, device="cpu", pin_memory=True)
            except RuntimeError as error:
                self._can_pin = False
                reason = str(error).partition("\n")[0]
                say(f"cannot pin host memory, so training waits longer for each background save: {reason}")
        return torch.empty_like(tensor, device="cpu")


def on_host(state: Any) -> Any:
    """Return `state` with its tensors on the CPU, for a file that is written at once.

    A view of a larger buffer is copied, because `torch.save` would write the whole buffer. Other tensors on the CPU are
    not copied.
    """

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        is_view = tensor.untyped_storage().nbytes() != tensor.nbytes
        return tensor.to("cpu", copy=True) if is_view else tensor.cpu()

    return _with_tensors(state, moved, lambda value: value)


def _with_tensors(value: Any, tensor: Any, other: Any) -> Any:
    """Return a copy of nested containers, with `tensor(value)` for each tensor and `other(value)` for each other value.

    An Enum member becomes its plain value.

    Equal states give equal copies, whose files have equal bytes. So a resumed training saves the same bytes as an
    undisturbed one. Keys of a plain dict are sorted, because an optimizer that was loaded has added them in another
    order. Equal strings become the same object, because pickle writes an object only once. The order of an OrderedDict
    is kept, because DeepSpeed's tools rely on it.
    """
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, dict):
        keys = list(value) if isinstance(value, OrderedDict) else _sorted(value)
        items = ((_shared(key), _with_tensors(value[key], tensor, other)) for key in keys)
        return OrderedDict(items) if isinstance(value, OrderedDict) else dict(items)
    if isinstance(value, list):
        return [_with_tensors(each, tensor, other) for each in value]
    if type(value) is tuple:
        return tuple(_with_tensors(each, tensor, other) for each in value)
    if isinstance(value, Enum):
        # Before Python 3.11.4 an Enum member is pickled as a call of getattr, which a safe unpickler rejects.
        return _shared(value.value)
    return _shared(value) if type(value) is str else other(value)


def _shared(value: Any) -> Any:
    """Return the one object that stands for all strings equal to `value`. Return other values unchanged."""
    return sys.intern(value) if type(value) is str else value


def _sorted(value: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dict in ascending order. If they are not all strings or all integers, keep their order."""
    kinds = {type(key) for key in value}
    return sorted(value) if kinds in ({str}, {int}) else list(value)
