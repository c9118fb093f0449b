"""Copy the state of a rank to host memory, so that training can continue while a thread writes the copy.

Tensors of a GPU are copied to pinned memory, to which the GPU can write directly. So the copies run at the full speed
of the link between GPU and host, and the training waits only once, for all copies together. torch keeps released
pinned memory for the next save, so only the first save of a segment pins memory. torch rounds the size of each pinned
tensor up to a power of two.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from bloomery.base.progress import say
from bloomery.checkpoint.map_tensors import map_tensors


class HostCopies:
    """Makes copies in host memory. The copies are complete after `wait`."""

    def __init__(self) -> None:
        self._streams: set[torch.cuda.Stream] = set()
        self._can_pin = True

    def add(self, state: Any) -> Any:
        """Return a copy of `state` that shares no memory with it. Tensors of a GPU may be incomplete before `wait`."""
        return map_tensors(state, self._copied, copy.deepcopy)

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

    return map_tensors(state, moved, lambda value: value)
