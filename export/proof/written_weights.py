"""Read the tensors of a written transformers folder in fp32, with one weight file open at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.spec.transformers_families.family import Family
from bloomery.spec.weight_files import INDEX_NAME, WEIGHTS_NAME


class Weights(Protocol):
    """Weights that a model computes with, by their names in transformers."""

    shapes: dict[str, tuple[int, ...]]

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor in fp32."""
        ...

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of `rows` rows of a tensor."""
        ...

    def rows(self, name: str, wanted: torch.Tensor, slice_rows: int) -> torch.Tensor:
        """Return the rows `wanted` (int64 [count]) of a matrix in fp32, and read `slice_rows` rows at a time."""
        ...

    def close(self) -> None:
        """Close all files."""
        ...


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
        self._open: tuple[str, contextlib.ExitStack, Any] | None = None
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Shape of each tensor, by its name in the model."""
        self.dtypes: dict[str, str] = {}
        """Data type of each tensor as safetensors names it, such as `BF16`, by its name in the model."""
        self._files: dict[str, str] = {}
        self._saved: dict[str, str] = {}
        for file in self._names():
            handle = self._opened(file)
            for saved in handle.keys():  # noqa: SIM118 (not a dictionary)
                part, name = handle.get_slice(saved), family.loaded_name(saved)
                self._saved[name], self._files[name], self.shapes[name] = saved, file, tuple(part.get_shape())
                self.dtypes[name] = part.get_dtype()

    def _names(self) -> list[str]:
        """Return the names of the weight files, in order."""
        if (self._folder / WEIGHTS_NAME).is_file():
            return [WEIGHTS_NAME]
        index = self._folder / INDEX_NAME
        if not index.is_file():
            raise InputError(
                "the folder has no weights",
                where=str(self._folder),
                expected=f"{WEIGHTS_NAME}, or {INDEX_NAME} with the files that it names",
            )
        value = read_json(index)
        names = value.get("weight_map") if isinstance(value, dict) else None
        plain = isinstance(names, dict) and all(
            isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")
            for name in names.values()
        )
        if not plain or not names:
            raise InputError(
                "the file does not map the names of tensors to names of safetensors files in this folder",
                where=str(index),
                expected='{"metadata": {...}, "weight_map": {tensor: file}}, as transformers writes it',
            )
        return sorted(set(names.values()))

    def _opened(self, file: str) -> Any:
        """Return the open file, after closing the one that was open before."""
        from safetensors import SafetensorError, safe_open

        if self._open is not None and self._open[0] == file:
            return self._open[2]
        self.close()
        stack = contextlib.ExitStack()
        path = self._folder / file
        try:
            handle = stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, FileNotFoundError) as error:
            raise InputError(
                "the file is missing or is not a complete safetensors file",
                where=str(path),
                expected="a weight file as transformers or `bloomery export` writes it",
            ) from error
        self._open = (file, stack, handle)
        return handle

    def close(self) -> None:
        """Close the open file, which also releases its memory."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def stored(self, name: str) -> torch.Tensor:
        """Return a copy of a tensor in its own data type."""
        found: torch.Tensor = self._opened(self._files[name]).get_tensor(self._saved[name])
        return found.clone()

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor in fp32."""
        found: torch.Tensor = self._opened(self._files[name]).get_tensor(self._saved[name])
        return self._fp32(found)

    def _fp32(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of `tensor` in fp32, after the rounding."""
        rounded = tensor if self._rounded_to is None else tensor.to(self._rounded_to)
        return rounded.to(torch.float32, copy=True)

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of `rows` rows of a tensor."""
        for first in range(0, self.shapes[name][0], rows):
            part = self._opened(self._files[name]).get_slice(self._saved[name])[first : first + rows]
            yield first, self._fp32(part)

    def rows(self, name: str, wanted: torch.Tensor, slice_rows: int) -> torch.Tensor:
        """Return the rows `wanted` (int64 [count]) of a matrix in fp32, [count, columns]."""
        found = torch.empty(len(wanted), *self.shapes[name][1:])
        for first in range(0, self.shapes[name][0], slice_rows):
            here = ((wanted >= first) & (wanted < first + slice_rows)).nonzero().flatten()
            if len(here):
                part = self._opened(self._files[name]).get_slice(self._saved[name])[first : first + slice_rows]
                found[here] = self._fp32(part[wanted[here] - first])
        return found
