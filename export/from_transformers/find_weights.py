"""Find the weight files of a transformers folder, and read single tensors from them.

A folder has `model.safetensors`, several safetensors files with an index, or the older files `pytorch_model*.bin`. The
older files are pickles, of which only tensors are unpickled. One file is open at a time.
"""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Any, Protocol

import torch

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.checkpoint.files import only_safe
from bloomery.spec.weight_files import INDEX_NAME, WEIGHTS_NAME

BIN_NAME, BIN_INDEX_NAME = "pytorch_model.bin", "pytorch_model.bin.index.json"
FORMS = ((WEIGHTS_NAME, INDEX_NAME, ".safetensors"), (BIN_NAME, BIN_INDEX_NAME, ".bin"))
"""Single file, index and suffix of each form. Safetensors come first, because they need no unpickling."""
_COMPLETE = "a complete file, as transformers writes it; download or copy it again"


class Tensors(Protocol):
    """An open weight file."""

    def names(self) -> list[str]:
        """Return the names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        ...

    def dtype(self, name: str) -> str:
        """Return the data type of a tensor as torch names it, such as `bfloat16`."""
        ...

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor. It may be memory-mapped."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files of a transformers folder, in order.

    Raises:
        InputError: the folder has no weights, or an index is damaged or names a file outside of the folder.
    """
    for single, index, suffix in FORMS:
        if (folder / single).is_file():
            return [folder / single]
        if (folder / index).is_file():
            return [folder / name for name in indexed_files(folder / index, suffix)]
    raise InputError(
        "the folder has no weights",
        where=str(folder),
        expected=f"{WEIGHTS_NAME}, {INDEX_NAME}, {BIN_NAME} or {BIN_INDEX_NAME}, as transformers writes them",
    )


def indexed_files(index: Path, suffix: str) -> list[str]:
    """Return the names of the weight files that an index maps tensors to, in order.

    Args:
        index: file such as `model.safetensors.index.json`.
        suffix: end of the name of every weight file, such as `.safetensors`.

    Raises:
        InputError: the index is damaged, or names a file outside of its folder or with another suffix.
    """
    value = read_json(index, any_integer=True)
    names = value.get("weight_map") if isinstance(value, dict) else None
    if not (
        isinstance(names, dict)
        and names
        and all(isinstance(name, str) and Path(name).name == name and name.endswith(suffix) for name in names.values())
    ):
        raise InputError(
            f"the file does not map the names of tensors to names of {suffix} files in this folder",
            where=str(index),
            expected='{"metadata": {...}, "weight_map": {tensor: file}}, as transformers writes it',
        )
    return sorted(set(names.values()))


def open_weights(path: Path) -> Tensors:
    """Open a weight file.

    Raises:
        InputError: the file is missing or damaged, or it holds more than tensors.
    """
    if not path.is_file():
        raise InputError("no such file", where=str(path), expected="every file that the index of the weights names")
    return _Safetensors(path) if path.suffix == ".safetensors" else _Pickle(path)


class _Safetensors:
    """An open safetensors file."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self._stack = contextlib.ExitStack()
        try:
            self._file: Any = self._stack.enter_context(safe_open(path, framework="pt"))
            self._names = sorted(self._file.keys())
        except SafetensorError as error:
            raise InputError("not a complete safetensors file", where=str(path), expected=_COMPLETE) from error

    def names(self) -> list[str]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        code = str(self._file.get_slice(name).get_dtype())
        return {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}.get(code, code)

    def tensor(self, name: str) -> torch.Tensor:
        found: torch.Tensor = self._file.get_tensor(name)
        return found

    def close(self) -> None:
        self._stack.close()


class _Pickle:
    """A file of `torch.save`, unpickled into tensors only."""

    def __init__(self, path: Path) -> None:
        try:
            # Files of torch before 1.6 have no zip format and cannot be memory-mapped.
            mapped = zipfile.is_zipfile(path)
            with only_safe([]):
                state = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # a damaged file makes the unpickler fail with almost any error
            raise InputError(
                "the file is damaged, or it holds more than tensors, which is not safe to read",
                where=str(path),
                expected=f"{_COMPLETE}; or the same model as safetensors files",
            ) from error
        if not isinstance(state, dict) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items()
        ):
            raise InputError("not a state dict of tensors", where=str(path), expected=_COMPLETE)
        self._state: dict[str, torch.Tensor] = dict(state)

    def names(self) -> list[str]:
        return sorted(self._state)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._state[name].shape)

    def dtype(self, name: str) -> str:
        return str(self._state[name].dtype).removeprefix("torch.")

    def tensor(self, name: str) -> torch.Tensor:
        return self._state[name]

    def close(self) -> None:
        self._state = {}
