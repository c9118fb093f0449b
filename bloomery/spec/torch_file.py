"""Compute the size of a file that `torch.save` writes: a zip archive with one pickle and one record for each tensor.

The layout is that of PyTorchStreamWriter (torch 2.6 or newer, caffe2/serialize/inline_container.cc). Records are not
compressed, and the content of each record begins at a multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

_ARCHIVE = "archive"
"""Folder in the archive. torch uses this name if it writes to a file object without a name."""
_ALIGNMENT = 64
_LOCAL_HEADER = 30
"""Bytes of a zip record's header, without the record's name."""
_PADDING_HEADER = 4
"""Bytes of the header of the extra field with which torch pads a record."""
_DESCRIPTOR = 16
"""Bytes after a record's content: signature, checksum and two sizes."""
_DIRECTORY_ENTRY = 46
"""Bytes of a record's entry in the zip directory, without the record's name."""
_END = 56 + 20 + 22
"""Bytes of the three structures that end a zip archive: zip64 end, its locator, and the end of the directory."""
_ZIP64_FROM = 2**32 - 1
"""Sizes and offsets from this number on need zip64 fields."""
_ZIP64_DESCRIPTOR = 8
"""Bytes by which the descriptor of a record with zip64 fields is longer."""
_ZIP64_FIELDS = 4 + 3 * 8
"""Largest number of bytes by which the directory's entry of a record with zip64 fields is longer."""

_BEFORE = {".format_version": 1, ".storage_alignment": 2, "byteorder": len("little")}
"""Records between the pickle and the tensors, with the bytes of their content."""
_AFTER = {"version": 2, ".data/serialization_id": 40}
"""Records after the tensors, with the bytes of their content."""

PICKLED_TENSOR = 58
"""Bytes of the opcodes that describe one tensor in the pickle: reference to its storage, offset, shape and stride.
Counted with pickletools in files of torch 2.13; large shapes need up to 8 bytes more."""
PICKLED_NAME = 7
"""Bytes of the opcodes around a dictionary's key, in addition to the key's characters."""
PICKLED_TYPES = 100
"""Bytes of the classes and functions that a pickle with tensors names once."""


def torch_file_bytes(pickle_bytes: int, tensors: Iterable[int]) -> int:
    """Return the bytes of a file of `torch.save`.

    Args:
        pickle_bytes: bytes of the pickle.
        tensors: bytes of each tensor's storage, in order.
    """
    records = [("data.pkl", pickle_bytes), *_BEFORE.items()]
    records += [(f"data/{number}", size) for number, size in enumerate(tensors)]
    records += _AFTER.items()
    position = directory = 0
    for name, size in records:
        named = len(f"{_ARCHIVE}/{name}")
        large = size >= _ZIP64_FROM or position >= _ZIP64_FROM
        begin = position + _LOCAL_HEADER + named + _PADDING_HEADER + (20 if large else 0)
        position = -(-begin // _ALIGNMENT) * _ALIGNMENT + size + _DESCRIPTOR + (_ZIP64_DESCRIPTOR if large else 0)
        directory += _DIRECTORY_ENTRY + named + (_ZIP64_FIELDS if large else 0)
    return position + directory + _END


def named_tensors_bytes(tensors: Iterable[tuple[str, int]]) -> int:
    """Return the bytes of a file of `torch.save` with a dictionary of tensors, given as (name, bytes)."""
    found = list(tensors)
    pickled = sum(PICKLED_NAME + len(name) + PICKLED_TENSOR for name, _ in found)
    return torch_file_bytes(PICKLED_TYPES + pickled, [size for _, size in found])
