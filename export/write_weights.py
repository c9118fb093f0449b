"""Write the weights of a transformers folder. Threads load the next layers while one thread writes.

The shards are planned from shapes alone, so file names (`model-00001-of-00072.safetensors`) are known before the first
tensor is read. Each file is written from its first to its last byte and hashed on the way. A large embedding is loaded
in slices of its rows, which follow each other in the file. Memory holds one layer or slice for each loading thread and
one that is written, whatever the size of a shard (see `bloomery.spec.writing_memory.WritingMemory`).
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.atomic import write_json
from bloomery.base.progress import Progress
from bloomery.contracts.file_entry import FileEntry
from bloomery.spec.weight_files import DTYPE_BYTES, INDEX_NAME, WEIGHTS_NAME, plan_shards
from export.direct_writer import DirectWriter
from export.weight_memory import WeightMemory

if TYPE_CHECKING:
    import torch

_CODES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
"""Name of each data type in a safetensors header."""
_HEADER_ALIGNMENT = 8


@dataclass(frozen=True)
class Tensor:
    """One tensor to write."""

    name: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Load:
    """Tensors of one layer, or a slice of the rows of one tensor, which one thread loads."""

    tensors: tuple[Tensor, ...]
    """The whole tensors that begin with this load. It is empty for every slice of a tensor except the first."""
    load: Callable[[WeightMemory], list[torch.Tensor]]
    """Function that loads the tensors in the same order, or the slice without its dropped rows. Several threads call
    such functions at the same time."""
    reusable_counts: tuple[int, ...]
    """Number of elements of each part of memory that `load` takes and that can be reused. It includes dropped rows."""


@dataclass(frozen=True)
class WrittenFiles:
    """Result of `write_weights`."""

    parameters: int
    """Number of parameters."""
    files: dict[str, FileEntry]
    """Size and hash of each weight file, by name."""


def write_weights(folder: Path, loads: Sequence[Load], dtype: str, max_shard_bytes: int, threads: int) -> WrittenFiles:
    """Write every tensor, and an index if there is more than one shard. Every file is on the disk when this returns.

    Args:
        folder: folder of the files.
        loads: all tensors, in the order of the files.
        dtype: data type of the tensors, such as `bfloat16`.
        max_shard_bytes: largest size of a file. Only a file of one tensor may be larger.
        threads: number of threads that load tensors.

    Raises:
        ResourceError: the disk is full or the folder cannot be written.
        TryAgainError: the disk or its server has a temporary fault.
    """
    tensors = [tensor for load in loads for tensor in load.tensors]
    item = DTYPE_BYTES[dtype]
    shards = plan_shards([tensor.count * item for tensor in tensors], max_shard_bytes)
    names = [
        WEIGHTS_NAME if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        for number in range(1, len(shards) + 1)
    ]
    files: dict[str, FileEntry] = {}
    parameters = sum(tensor.count for tensor in tensors)
    memory = WeightMemory(count * item for load in loads for count in load.reusable_counts)
    with Progress("write weights", len(tensors), "tensors") as bar, ThreadPoolExecutor(threads) as pool:
        # While one load is written, each thread loads another one.
        loaded = _in_order(pool, loads, threads + 1, memory)
        for name, shard in zip(names, shards, strict=True):
            files[name] = _write_shard(folder / name, [tensors[number] for number in shard], loaded, dtype, bar)
        # The last loads may consist of dropped rows only. These are checked, but they are not in any file.
        left = list(loaded)
        assert not left, "every tensor is written"
    if len(shards) > 1:
        weight_map = {tensors[n].name: name for name, shard in zip(names, shards, strict=True) for n in shard}
        metadata = {"total_parameters": parameters, "total_size": parameters * item}
        write_json(folder / INDEX_NAME, {"metadata": metadata, "weight_map": weight_map})
    return WrittenFiles(parameters, files)


def _in_order(
    pool: ThreadPoolExecutor, loads: Sequence[Load], most: int, memory: WeightMemory
) -> Iterator[torch.Tensor]:
    """Yield the tensors and slices in order. At most `most` loads are in memory or in progress."""
    waiting: deque[Future[list[torch.Tensor]]] = deque()
    try:
        for each in loads:
            waiting.append(pool.submit(each.load, memory))
            if len(waiting) >= most:
                yield from _emptied(waiting.popleft().result(), memory)
        while waiting:
            yield from _emptied(waiting.popleft().result(), memory)
    finally:
        for future in waiting:
            future.cancel()


def _emptied(tensors: list[torch.Tensor], memory: WeightMemory) -> Iterator[torch.Tensor]:
    """Yield the tensors, and give back the memory of each one before the next."""
    while tensors:
        tensor = tensors.pop(0)
        yield tensor
        memory.give(tensor)


def _write_shard(
    path: Path, tensors: Sequence[Tensor], loaded: Iterator[torch.Tensor], dtype: str, bar: Progress
) -> FileEntry:
    """Write one safetensors file, and return its size and hash."""
    with DirectWriter(path) as file:
        for data in _content(tensors, loaded, dtype, bar):
            file.write(data)
        return file.finish()


def _content(
    tensors: Sequence[Tensor], loaded: Iterator[torch.Tensor], dtype: str, bar: Progress
) -> Iterator[bytes | memoryview]:
    """Yield the parts of a safetensors file: its header, then each tensor."""
    import torch

    yield _header(tensors, dtype)
    for tensor in tensors:
        missing_rows = tensor.shape[0]
        while missing_rows:
            found = next(loaded)
            missing_rows -= len(found)
            assert missing_rows >= 0, tensor.name
            assert found.shape[1:] == tensor.shape[1:], tensor.name
            assert found.dtype == getattr(torch, dtype), tensor.name
            yield found.contiguous().view(-1).view(torch.uint8).numpy().data
        bar.advance()


def _header(tensors: Sequence[Tensor], dtype: str) -> bytes:
    """Return the header of a safetensors file (https://github.com/huggingface/safetensors#format)."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position, item = 0, DTYPE_BYTES[dtype]
    for tensor in tensors:
        end = position + tensor.count * item
        entries[tensor.name] = {"dtype": _CODES[dtype], "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
