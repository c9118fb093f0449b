"""Write this rank's files of a checkpoint, in the foreground or in a thread.

DeepSpeed passes every file that it saves to its "checkpoint engine", and `ShardWriter` is this project's engine. Each
rank hashes its files while it writes them, so the 2.28 TiB of a BLOOM checkpoint need not be read again for hashing.
Each tensor is also checked just before it is written. A tensor that is not finite makes the save fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine
from safetensors.torch import save

from bloomery.base.errors import CheckFailedError
from bloomery.checkpoint.write_hashed import write_hashed
from bloomery.contracts.file_entry import FileEntry
from training.checkpoint.copy_to_host import HostCopies, on_host
from training.checkpoint.finite import not_finite_in_file

if TYPE_CHECKING:
    from bloomery.spec.placement import Parameter


_Check = Callable[[], str | None]
"""Function that describes a tensor of a file that is not finite. It returns None if all tensors are finite."""
_Write = Callable[[Any], object]
"""Function that writes the content of a file to an open file."""


class NotFiniteError(Exception):
    """A tensor is not finite, so it must not be saved. The message describes the tensor."""


class ShardWriter(CheckpointEngine):  # type: ignore[misc]
    """Checkpoint engine that writes and hashes the files of DeepSpeed's engine, and checks that they are finite.

    An error while writing is stored in `problem` and not raised, because other ranks may wait in a collective.
    """

    def __init__(self, parameters: Sequence[Parameter] = ()) -> None:
        """Prepare to write. The declared names of `parameters` describe a tensor that is not finite."""
        super().__init__()
        self._parameters = parameters
        self.files: dict[str, FileEntry] = {}
        """Files that this rank wrote since `begin`, by path relative to the checkpoint's folder."""
        self.problem: Exception | None = None
        """The first error since `begin`: an error of the disk, or a `NotFiniteError`. None if no error occurred."""
        self._folder = Path()
        self._background = False
        self._waiting: list[tuple[Path, _Check, _Write]] = []
        self._thread: threading.Thread | None = None
        self._copies = HostCopies()

    def begin(self, folder: Path, background: bool) -> None:
        """Start to accept files of the checkpoint in `folder`.

        With `background`, states are only copied to memory, and `end` starts the thread that writes them.
        """
        assert self._thread is None, "the previous save has not ended"
        self.files, self.problem, self._waiting = {}, None, []
        self._folder, self._background = folder, background

    def end(self) -> None:
        """Mark the end of this rank's files.

        In the background mode, wait until the states are copied to memory, and start the thread that writes them.
        """
        if self._background:
            self._copies.wait()
            self._thread = threading.Thread(target=self._write_waiting, name="checkpoint", daemon=True)
            self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether no file of this rank is still being written. A write may have failed (see `problem`)."""
        return self._thread is None or not self._thread.is_alive()

    def join(self) -> None:
        """Wait until the thread has written all files."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def save(self, state_dict: Any, path: str) -> None:
        """Check and write one of DeepSpeed's files with `torch.save`, now or in the background."""
        state = self._copies.add(state_dict) if self._background else on_host(state_dict)
        target = Path(path)
        self._take(
            target,
            lambda: not_finite_in_file(target.name, state, self._parameters),
            lambda handle: torch.save(state, handle),
        )

    def save_tensors(
        self, tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None
    ) -> None:
        """Check a small safetensors file, and write it with its metadata now or in the background."""
        # The content is copied now, so check it now too. `tensors` may change before the thread writes the file.
        not_finite = not_finite_in_file(path.name, tensors, self._parameters)
        data = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, metadata)
        self._take(path, lambda: not_finite, lambda handle: handle.write(data))

    def note_not_finite(self, tensor: str | None) -> None:
        """Store the description of a tensor of this rank that is not finite. None means that all tensors are finite."""
        if tensor is not None and self.problem is None:
            self.problem = NotFiniteError(tensor)

    def _take(self, path: Path, check: _Check, write: _Write) -> None:
        """Check and write a file now, or queue it in the background mode."""
        if self._background:
            self._waiting.append((path, check, write))
        else:
            self._write(path, check, write)

    def _write_waiting(self) -> None:
        while self._waiting:
            self._write(*self._waiting.pop(0))

    def _write(self, path: Path, check: _Check, write: _Write) -> None:
        """Check, write, hash and fsync one file. Store any error in `problem`; do nothing after an error."""
        if self.problem is not None:
            return
        try:
            if (tensor := check()) is not None:
                raise NotFiniteError(tensor)
            # Rank 0 created the folder, but another node's file system client may have cached that it does not exist.
            # mkdir makes that client ask the server.
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = write_hashed(path, write)
        except Exception as error:  # After any error the file is incomplete, so the checkpoint must not be sealed.
            self.problem = error
            return
        self.files[path.relative_to(self._folder).as_posix()] = entry

    def load(self, path: str, map_location: Any = None) -> Any:
        """Refuse to load, because DeepSpeed would unpickle the file. Use `training.checkpoint.load_checkpoint`.

        Raises:
            CheckFailedError: always.
        """
        raise CheckFailedError(
            "DeepSpeed's own loader must not be used, because it would unpickle this file",
            where=path,
            expected="that training.checkpoint.load_checkpoint reads the file; please report this error of Bloomery",
        )

    def create(self, info: Any) -> None:
        """Do nothing. `begin` prepares a save."""

    def commit(self, info: Any) -> bool:
        """Return True and do nothing. The checkpoint manager seals a checkpoint when all ranks are done."""
        return True

    def preserves_storage_sharing(self) -> bool:
        """Return False, so that DeepSpeed makes no copies. `save` copies where necessary."""
        return False
