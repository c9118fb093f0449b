"""Read the header of a file of `torch.save` without torch: nested containers, and the type and shape of each tensor.

Such a file is a zip archive with a pickle and one uncompressed record for each tensor. The directory of the archive has
the CRC-32 of each record, so copies of a tensor can be compared without reading them. The import of torch takes longer
than reading the headers of 1,000 files.
"""

from __future__ import annotations

import errno
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.checkpoint.files import OTHER_CHECKPOINT, DynamicScaler, Fragment, Scaler

_MOST_PICKLE_BYTES = 64 << 20
"""Largest accepted pickle. The pickle of a BLOOM checkpoint's largest file has fewer than 100,000 bytes."""
_STORAGES = {
    "BFloat16Storage": "bfloat16",
    "HalfStorage": "float16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
"""Data type of each class of storage in the module `torch`."""
_ITEM_BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


@dataclass(frozen=True)
class StoredTensor:
    """Description of a contiguous tensor in a file."""

    dtype: str
    """Data type as torch names it, such as `bfloat16`."""
    shape: tuple[int, ...]
    record: str
    """Name of the tensor's record in the archive."""
    start_bytes: int
    """Position of the first element in the record."""

    @property
    def count(self) -> int:
        """Number of elements."""
        found = 1
        for size in self.shape:
            found *= size
        return found

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes."""
        return self.count * _ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class _Storage:
    dtype: str
    record: str


class TorchArchive:
    """A file of `torch.save`, of which only the directory and the pickle were read."""

    def __init__(self, path: Path) -> None:
        """Read the header of the file.

        Raises:
            InputError: the file is damaged, or it holds more than tensors, plain data and DeepSpeed's positions and
                loss scalers.
        """
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._records = {info.filename: info for info in archive.infolist()}
                (name,) = (each for each in self._records if each.endswith("/data.pkl"))
                self._check_stored(name)
                self._folder = name.removesuffix("data.pkl")
                with archive.open(name) as pickled:
                    self.state: Any = _Unpickler(pickled, self._folder).load()
            for tensor in _tensors(self.state):
                self._check_stored(tensor.record)
                if tensor.start_bytes + tensor.bytes > self._records[tensor.record].file_size:
                    raise ValueError(f"record {tensor.record} is too short")
        except Exception as error:
            # A damaged file makes the unpickler fail with almost any error.
            # A damaged position makes the system refuse to seek (EINVAL). After other OSErrors, the file may be intact.
            if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno != errno.EINVAL):
                raise
            raise self._damaged(f"the header of the file cannot be read: {error}") from error

    def _damaged(self, what: str) -> InputError:
        expected = f"a file of a checkpoint as the training saved it; {OTHER_CHECKPOINT}"
        return InputError(what, where=str(self.path), expected=expected)

    def _check_stored(self, name: str) -> None:
        info = self._records[name]
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"record {name} is compressed")
        if name.endswith("/data.pkl") and info.file_size > _MOST_PICKLE_BYTES:
            raise ValueError(f"the pickle has {info.file_size} bytes")

    def checksum(self, tensor: StoredTensor) -> tuple[int, int]:
        """Return the CRC-32 and the size in bytes of the tensor's record, which the archive's directory states."""
        info = self._records[tensor.record]
        return info.CRC, info.file_size

    def read(self, pieces: list[tuple[StoredTensor, int, int]]) -> Iterator[bytes]:
        """Yield the bytes of some elements of tensors, given as (tensor, first element, number of elements).

        Raises:
            InputError: the file is damaged.
            OSError: the file cannot be read.
        """
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            for tensor, first, count in pieces:
                item, header = _ITEM_BYTES[tensor.dtype], self._records[tensor.record].header_offset
                # A record begins with 30 bytes, the last four of which are the lengths of its name and its extra field.
                lengths = self._read(descriptor, header + 26, 4)
                begin = header + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
                yield self._read(descriptor, begin + tensor.start_bytes + first * item, count * item)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, position: int, size: int) -> bytes:
        parts, end = [], position + size
        while position < end:
            # One call reads at most 2 GiB.
            part = os.pread(descriptor, end - position, position) if position >= 0 else b""
            if not part:
                raise self._damaged("the file is too short for its tensors")
            parts.append(part)
            position += len(part)
        return b"".join(parts)


class _Unpickler(pickle.Unpickler):
    """Unpickler that builds nothing but plain containers, tensor descriptions and placeholders."""

    def __init__(self, handle: Any, folder: str) -> None:
        super().__init__(handle)
        self._folder = folder

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if module == "torch" and name in _ITEM_BYTES:
            return name
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"the file names {module}.{name}")
        return _CLASSES[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        _, dtype, key, _, _ = pid
        return _Storage(dtype, f"{self._folder}data/{key}")


def _tensor(storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> StoredTensor:
    """Stand in for `torch._utils._rebuild_tensor_v2`."""
    if offset < 0 or any(size < 0 for size in shape):
        raise ValueError("a tensor has a negative size")
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            raise ValueError("a tensor is not contiguous")
        expected *= size
    return StoredTensor(storage.dtype, tuple(shape), storage.record, offset * _ITEM_BYTES[storage.dtype])


def _size(values: Any = ()) -> tuple[int, ...]:
    """Stand in for `torch.Size`."""
    return tuple(values)


_CLASSES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): _size,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("deepspeed.utils.tensor_fragment", "fragment_address"): Fragment,
    ("deepspeed.runtime.fp16.loss_scaler", "LossScaler"): Scaler,
    ("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"): DynamicScaler,
}


def _tensors(value: Any) -> Iterator[StoredTensor]:
    """Yield every tensor in nested containers."""
    if isinstance(value, StoredTensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
