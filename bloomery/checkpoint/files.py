"""Open a checkpoint's files by memory map. They are unpickled only into tensors and plain data."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError

OTHER_CHECKPOINT = (
    "to resume from an earlier checkpoint, move this one out of the run's folder train/checkpoints and run the same "
    "command again; to export another one, use `bloomery export model --checkpoint NAME`"
)
"""What a user can do if a checkpoint cannot be used."""


class Plain:
    """Placeholder for a DeepSpeed class in a file. It accepts the attributes and has no behaviour."""

    def __init__(self, *_values: object) -> None: ...


class Fragment(Plain):
    """Position of a parameter's elements in a replica's part of a parameter group."""

    start: int
    numel: int


class Scaler(Plain):
    """State of a static loss scaler."""


class DynamicScaler(Scaler):
    """State of a dynamic loss scaler."""


_STAND_INS: list[tuple[type[Plain], str]] = [
    (Fragment, "deepspeed.utils.tensor_fragment.fragment_address"),
    (Scaler, "deepspeed.runtime.fp16.loss_scaler.LossScaler"),
    (DynamicScaler, "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler"),
]

_LOCK = threading.Lock()
"""Lock for torch's list of safe classes, which all threads share."""


@contextmanager
def only_safe(classes: Sequence[Any]) -> Iterator[None]:
    """Let torch's restricted unpickler make only tensors, plain data and `classes`, in the form of `safe_globals`.

    Classes that other packages have declared safe are not allowed, because torch could use one of them instead of a
    class in `classes`.
    """
    from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

    with _LOCK:
        others = get_safe_globals()
        clear_safe_globals()
        add_safe_globals([*classes])
        try:
            yield
        finally:
            clear_safe_globals()
            add_safe_globals(others)


def optimizer_file(replica: int, stage: int, tensor_rank: int, tensor_parallel: int, *, bf16: bool) -> str:
    """Return the name of the file in which DeepSpeed saves one replica's part of the optimizer state of a (pipeline
    stage, tensor rank)."""
    model_rank = stage * tensor_parallel + tensor_rank
    return f"{'bf16_' if bf16 else ''}zero_pp_rank_{replica}_mp_rank_{model_rank:02d}_optim_states.pt"


def engine_file(stage: int, tensor_rank: int, tensor_parallel: int) -> str:
    """Return the name of the file with DeepSpeed's state of the engine of a (pipeline stage, tensor rank)."""
    return f"mp_rank_{stage * tensor_parallel + tensor_rank:02d}_model_states.pt"


def random_file(rank: int) -> str:
    """Return the name of the file with a rank's random number generator states."""
    return f"random_rank_{rank:05d}.safetensors"


def forget_pages(path: Path) -> None:
    """Tell the system that a file that was read will not be read again soon.

    The system then uses the memory of its page cache for the next file. Otherwise, reading gigabytes displaces the
    files of other programs, and on some machines new memory takes longer than the disk.
    """
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def open_state(path: Path, classes: Sequence[Any] = _STAND_INS) -> dict[str, Any]:
    """Open a file of `torch.save`. Its tensors stay on the disk until they are read.

    `classes` are the classes, besides tensors and plain data, that the file may contain, as `safe_globals` takes them.

    Raises:
        InputError: the file is not a state dict of tensors and plain data.
    """
    import torch

    try:
        with only_safe(classes):
            state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:
        # A damaged file makes the unpickler fail with almost any error, such as KeyError or AttributeError.
        # The system refuses to map an empty file (EINVAL). After any other OSError, the file may be intact.
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno != errno.EINVAL):
            raise
        raise InputError(
            "the file is not a state dict that torch can read safely: it is damaged, or it holds more than tensors and "
            "plain data",
            where=str(path),
            expected=f"a file of a checkpoint as the training saved it; {OTHER_CHECKPOINT}",
        ) from error
    if not isinstance(state, dict):
        raise InputError(
            f"the file contains a {type(state).__name__}",
            where=str(path),
            expected=f"a state dict of tensors; {OTHER_CHECKPOINT}",
        )
    return dict(state)
