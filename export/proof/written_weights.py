"""Read the tensors of a written transformers folder in fp32.

The files are read, not mapped: resident memory then does not grow by each file that was read. All reads go through one
small buffer, so that a tensor is converted to fp32 without a second copy. Threads must not share an object.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from bloomery.base.errors import InputError
from bloomery.spec.transformers_families.family import Family
from bloomery.spec.weight_files import INDEX_NAME, WEIGHTS_NAME
from export.from_transformers.find_weights import indexed_files


class Weights(Protocol):
    """Weights that a model computes with, by their names in transformers."""

    shapes: dict[str, tuple[int, ...]]

    def tensor(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return a tensor in fp32, in the contiguous tensor `out` or in new memory."""
        ...

    def expect(self, names: Sequence[str]) -> None:
        """Let the system begin to read tensors that are needed soon."""
        ...

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of `rows` rows of a tensor.

        A slice is valid until the next one is requested.
        """
        ...

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        """Return the rows `wanted` (int64 [count]) of a matrix in fp32, [count, columns]."""
        ...


_BUFFER_BYTES = 1 << 20
_HEADER_LENGTH_BYTES = 8
_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
"""Data type of each code in a safetensors header."""


@dataclass(frozen=True)
class _Stored:
    """Place of a tensor in a safetensors file."""

    path: Path
    offset: int
    """Position of the first byte in the file."""
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class WeightFiles:
    """Weights of a folder with `model.safetensors` or with several files and their index."""

    def __init__(self, folder: Path, family: Family, rounded_to: str | None = None) -> None:
        """Find the file of each tensor.

        Args:
            folder: folder with the weights.
            family: table of the model's family, which gives the names of the tensors in the model.
            rounded_to: data type, such as `bfloat16`, to which tensors are rounded before they are returned in fp32;
                None for no rounding.

        Raises:
            InputError: there are no weights, or a file is not a complete safetensors file.
        """
        self._folder = folder
        self._rounded_to = None if rounded_to is None else getattr(torch, rounded_to)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._stored: dict[str, _Stored] = {}
        for file in self._names():
            for saved, place in _places(folder / file).items():
                self._stored[family.loaded_name(saved)] = place
        self.shapes = {name: place.shape for name, place in self._stored.items()}
        """Shape of each tensor, by its name in the model."""

    def _names(self) -> list[str]:
        """Return the names of the weight files, in order."""
        if (self._folder / WEIGHTS_NAME).is_file():
            return [WEIGHTS_NAME]
        return indexed_files(self._folder / INDEX_NAME, ".safetensors")

    def tensor(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return a tensor in fp32, in the contiguous tensor `out` or in new memory."""
        found = torch.empty(self.shapes[name]) if out is None else out
        self._read(name, 0, found)
        return found

    def expect(self, names: Sequence[str]) -> None:
        """Let the system begin to read tensors that are needed soon."""
        if hasattr(os, "posix_fadvise"):
            for place in (self._stored[name] for name in names):
                with place.path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), place.offset, place.bytes, os.POSIX_FADV_WILLNEED)

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of `rows` rows of a tensor.

        All slices use the same memory.
        """
        whole = self.shapes[name]
        memory = torch.empty(min(rows, whole[0]), *whole[1:])
        for first in range(0, whole[0], rows):
            found = memory[: min(rows, whole[0] - first)]
            self._read(name, first, found)
            yield first, found

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        """Return the rows `wanted` (int64 [count]) of a matrix in fp32, [count, columns]."""
        found = torch.empty(len(wanted), *self.shapes[name][1:])
        for place, row in enumerate(wanted.tolist()):
            self._read(name, row, found[place : place + 1])
        return found

    def _read(self, name: str, first_row: int, out: torch.Tensor) -> None:
        """Read the rows from `first_row` on into the contiguous fp32 tensor `out`."""
        stored, values = self._stored[name], out.view(-1)
        item = stored.dtype.itemsize
        chunk = torch.frombuffer(self._buffer, dtype=stored.dtype)
        position = stored.offset + item * first_row * math.prod(stored.shape[1:])
        with stored.path.open("rb", buffering=0) as file:
            for start in range(0, len(values), len(chunk)):
                count = min(len(chunk), len(values) - start)
                _fill(file.fileno(), memoryview(self._buffer)[: item * count], position + item * start, stored.path)
                part = chunk[:count]
                values[start : start + count] = part if self._rounded_to is None else part.to(self._rounded_to)


def _fill(file: int, view: memoryview, position: int, path: Path) -> None:
    """Fill `view` with the bytes of an open file from `position` on."""
    while view:
        count = os.preadv(file, [view], position)
        if not count:
            raise _incomplete(path)
        view, position = view[count:], position + count


def _places(path: Path) -> dict[str, _Stored]:
    """Return the place of each tensor in a safetensors file, by the tensor's name in the file.

    Raises:
        InputError: the file is missing or is not a complete safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:  # checks the whole header against the size of the file
            names: Sequence[str] = file.keys()
        with path.open("rb") as raw:
            length = int.from_bytes(raw.read(_HEADER_LENGTH_BYTES), "little")
            header = json.loads(raw.read(length))
    except (SafetensorError, FileNotFoundError) as error:
        raise _incomplete(path) from error
    start = _HEADER_LENGTH_BYTES + length
    found = {}
    for name in names:
        entry = header[name]
        if entry["dtype"] not in _DTYPES:
            raise InputError(
                f"the tensor {name} has type {entry['dtype']}", where=str(path), expected=f"one of {', '.join(_DTYPES)}"
            )
        found[name] = _Stored(path, start + entry["data_offsets"][0], tuple(entry["shape"]), _DTYPES[entry["dtype"]])
    return found


def _incomplete(path: Path) -> InputError:
    return InputError(
        "the file is missing or is not a complete safetensors file",
        where=str(path),
        expected="a weight file as transformers or `bloomery export` writes it",
    )
