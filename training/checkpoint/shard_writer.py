"""Writes this rank's files of a checkpoint, in the foreground or in a thread.

DeepSpeed hands every file that it saves to its "checkpoint engine"; `ShardWriter` is ours. A file is hashed while it is
written, by the rank that writes it: nobody reads the 2.24 TiB of a BLOOM checkpoint again for that.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import IO, Any

import torch
from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine
from safetensors.torch import save

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import FileEntry


class ShardWriter(CheckpointEngine):  # type: ignore[misc]
    """Where DeepSpeed's engine saves to.

    An error while writing is kept and not raised: the other ranks are in a collective by then. `problem` has it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, FileEntry] = {}
        """What this rank wrote since `begin`, by path relative to the checkpoint's folder."""
        self.problem: Exception | None = None
        """The first error since `begin`."""
        self._folder = Path()
        self._background = False
        self._waiting: list[tuple[Path, Callable[[Any], object]]] = []
        self._thread: threading.Thread | None = None

    def begin(self, folder: Path, background: bool) -> None:
        """Take files of the checkpoint in `folder`; in the background: only copy them until `end`."""
        assert self._thread is None, "the save before has not ended"
        self.files, self.problem, self._waiting = {}, None, []
        self._folder, self._background = folder, background

    def end(self) -> None:
        """All files of this rank are handed over: those that wait are written in a thread from now on."""
        if self._background:
            self._thread = threading.Thread(target=self._write_waiting, name="checkpoint", daemon=True)
            self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether everything handed over is on disk, or has failed."""
        return self._thread is None or not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def save(self, state_dict: Any, path: str) -> None:
        """Write one of DeepSpeed's files."""
        state = _on_host(state_dict, copied=self._background)
        self._take(Path(path), lambda handle: torch.save(state, handle))

    def save_tensors(self, tensors: dict[str, torch.Tensor], path: Path) -> None:
        """Write a small safetensors file."""
        data = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
        self._take(path, lambda handle: handle.write(data))

    def _take(self, path: Path, write: Callable[[Any], object]) -> None:
        if self._background:
            self._waiting.append((path, write))
        else:
            self._write(path, write)

    def _write_waiting(self) -> None:
        while self._waiting:
            self._write(*self._waiting.pop(0))

    def _write(self, path: Path, write: Callable[[Any], object]) -> None:
        if self.problem is not None:
            return
        try:
            # Rank 0 has made the folder; another node's file system client may remember that there was none, and asks
            # its server only when told to make it.
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as handle:
                hashing = _HashingFile(handle)
                write(hashing)
                if hashing.problem is not None:
                    raise hashing.problem
                handle.flush()
                # Durable before the manifest says that it exists.
                os.fsync(handle.fileno())
        except Exception as error:  # Whatever it is, the file is missing: the checkpoint must not be sealed.
            self.problem = error
            return
        entry = FileEntry(bytes=hashing.bytes, sha256=hashing.digest.hexdigest())
        self.files[path.relative_to(self._folder).as_posix()] = entry

    def load(self, path: str, map_location: Any = None) -> Any:
        """Refuse: DeepSpeed would unpickle whatever is there. `training.checkpoint.load_checkpoint` reads them."""
        raise CheckFailedError("DeepSpeed's own loader would unpickle this file", where=path)

    def create(self, info: Any) -> None:
        """Nothing: `begin` comes before."""

    def commit(self, info: Any) -> bool:
        """Nothing: the checkpoint manager seals a checkpoint when all ranks are done."""
        return True

    def preserves_storage_sharing(self) -> bool:
        """False: DeepSpeed need not copy what it hands over, `save` does where it must."""
        return False


class _HashingFile:
    """A file that hashes what goes through it and never raises: torch's writer would abort the process."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.digest = hashlib.sha256()
        self.bytes = 0
        self.problem: OSError | None = None

    def write(self, data: Any) -> int:
        size = len(data)
        if self.problem is None:
            try:
                self._handle.write(data)
                self.digest.update(data)
                self.bytes += size
            except OSError as error:
                self.problem = error
        return size

    def flush(self) -> None:
        """Nothing: the file is flushed when it is whole."""


def _on_host(value: Any, copied: bool) -> Any:
    """`value` with its tensors on the CPU, without the rest of a larger buffer that a view would drag into the file.

    `copied`: share nothing with `value`, so that training may go on while the result is written.
    """
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        is_view = tensor.untyped_storage().nbytes() != tensor.nbytes
        return tensor.to("cpu", copy=True) if copied or is_view else tensor.cpu()
    if isinstance(value, dict):
        items = ((key, _on_host(each, copied)) for key, each in value.items())
        return OrderedDict(items) if isinstance(value, OrderedDict) else dict(items)
    if isinstance(value, list):
        return [_on_host(each, copied) for each in value]
    if type(value) is tuple:
        return tuple(_on_host(each, copied) for each in value)
    if isinstance(value, Enum):
        # Before Python 3.11.4 a member is pickled by a call of getattr, which no reader should allow.
        return value.value
    return copy.deepcopy(value) if copied else value
