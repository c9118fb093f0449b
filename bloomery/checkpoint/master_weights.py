"""Read a checkpoint's weights in fp32: the optimizer's master weights, or the weights of a training in fp32.

A training in 16 bits updates fp32 master weights and rounds them to its weights. Every tensor that is read here is
therefore rounded and compared with the checkpoint's weight.
"""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.errors import InputError
from bloomery.checkpoint.drift import DriftError, how_to_repair
from bloomery.checkpoint.files import OTHER_CHECKPOINT, optimizer_file
from bloomery.checkpoint.merge import bits_equal, greatest_difference
from bloomery.checkpoint.optimizer_state import MASTER, OptimizerState
from bloomery.spec.weight_files import PRECISION_DTYPES

if TYPE_CHECKING:
    import torch

    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.spec.placement import Parameter


_COMPARED = 1 << 23
"""Number of elements that are rounded and compared at a time."""


class MasterWeights:
    """The fp32 weights of a checkpoint. Each thread needs its own reader. All readers share the optimizer's state."""

    is_mapped = True
    """Whether the files are mapped (see `export.layers.WeightSource`)."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Open the optimizer's state. A training in fp32 needs no state, because its weights are fp32.

        Raises:
            InputError: the checkpoint has no optimizer state, or a file was not written by DeepSpeed.
            CheckFailedError: a file differs from the manifest.
        """
        self._checkpoint = checkpoint
        self._dtype = PRECISION_DTYPES[checkpoint.trained_with("precision")]
        self._state: OptimizerState | None = None
        self._lock = threading.Lock()
        if self._dtype != "float32":
            self._check_present()
            self._state = OptimizerState(checkpoint)
            # The settings of the state keep its first file mapped. Close this mapping for the weights, so that they
            # are read from another one, which `close` removes after each layer.
            self._state.close()

    def _check_present(self) -> None:
        name = optimizer_file(0, 0, 0, self._checkpoint.ranks, bf16=self._dtype == "bfloat16")
        if name not in self._checkpoint.manifest.files:
            raise InputError(
                f"the checkpoint has no optimizer state ({name}), so its weights exist only in {self._dtype}",
                where=str(self._checkpoint.folder),
                expected=f"no key export.dtype, to export the {self._dtype} weights; or, for "
                f"export.dtype 'float32', a checkpoint with the optimizer state; {OTHER_CHECKPOINT}",
            )

    def another_reader(self) -> MasterWeights:
        """Return the same weights, so that another thread can read them at the same time."""
        found = copy.copy(self)
        found._checkpoint = self._checkpoint.another_reader()
        return found

    def close(self, *, forget: bool = True) -> None:
        """Close the checkpoint's files (see `Checkpoint.close`) and those of the optimizer's state."""
        self._checkpoint.close(forget=forget)
        if self._state is not None:
            with self._lock:
                self._state.close()

    def weight(
        self,
        parameter: Parameter,
        dtype: torch.dtype,
        wanted: range | None = None,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the contiguous parameter in fp32, or only the indices `wanted` of its split dimension.

        `dtype` must be fp32. `out` is memory for the result (see `assemble`).

        Raises:
            DriftError: replicas are not bit-equal, or the master weights, rounded to the type of the weights, differ
                from the weights.
            CheckFailedError: a file differs from the manifest or from the layout.
            InputError: a file is not a state dict.
        """
        import torch

        assert dtype is torch.float32, dtype
        own = getattr(torch, self._dtype)
        if self._state is None:
            return self._checkpoint.weight(parameter, own, wanted, out=out)
        weight = self._checkpoint.weight(parameter, own, wanted)
        with self._lock:
            master = self._state.part(parameter, MASTER, wanted, out=out)
        check_rounded(parameter, master, weight, self._checkpoint.folder)
        return master


def check_rounded(parameter: Parameter, master: torch.Tensor, weight: torch.Tensor, folder: Path) -> None:
    """Check that a weight equals its fp32 master weight, rounded to the type of the weight.

    Both are contiguous tensors of one shape: the parameter, or a part of it. `folder` is the checkpoint.

    Raises:
        DriftError: they differ.
    """
    # Round a part at a time, so that memory holds no rounded copy of a large tensor.
    exact, rounded = master.view(-1), weight.view(-1)
    parts = [slice(start, start + _COMPARED) for start in range(0, len(exact), _COMPARED)]
    if not all(bits_equal(exact[part].to(weight.dtype), rounded[part]) for part in parts):
        raise DriftError(
            f"weights of {parameter.name} differ from their fp32 master weights by up to "
            f"{greatest_difference(master.to(weight.dtype), weight):.3g}",
            where=str(folder),
            expected=f"weights that equal the master weights, rounded to {weight.dtype}; {how_to_repair(folder)}",
        )
