"""Write the weights of a transformers folder. Threads load the next layers while one thread writes.

The shards are planned from shapes alone, so file names (`model-00001-of-00072.safetensors`) are known before the first
tensor is read. Each file is written from its first to its last byte and hashed on the way. Memory holds the layers that
are being loaded or written, at most one for each thread and one more, whatever the size of a shard.
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
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress
from bloomery.contracts.file_entry import FileEntry
from bloomery.spec.export_resources import WRITER_THREADS
from bloomery.spec.weight_files import DTYPE_BYTES, INDEX_NAME, MAX_SHARD_BYTES, WEIGHTS_NAME
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
class Layer:
    """Tensors that are loaded together, by one thread."""

    tensors: tuple[Tensor, ...]
    load: Callable[[WeightMemory], list[torch.Tensor]]
    """Function that loads the tensors, in the same order. Other threads load other layers at the same time."""
    read_counts: tuple[int, ...]
    """Number of elements of each tensor before rows are dropped."""


@dataclass(frozen=True)
class WrittenFiles:
    """Result of `write_weights`."""

    parameters: int
    """Number of parameters."""
    files: dict[str, FileEntry]
    """Size and hash of each weight file, by name."""


def plan_shards(sizes: Sequence[int], max_shard_bytes: int) -> list[range]:
    """Group consecutive tensors into shards. A tensor that alone exceeds the limit gets its own shard.

    Raises:
        InputError: the limit is not positive.
    """
    if max_shard_bytes <= 0:
        raise InputError(
            f"a weight file of {max_shard_bytes} bytes cannot hold a tensor",
            where="--max-shard-size",
            expected="a size such as 5GB",
        )
    shards, start, filled = [], 0, 0
    for number, size in enumerate(sizes):
        if number > start and filled + size > max_shard_bytes:
            shards.append(range(start, number))
            start, filled = number, 0
        filled += size
    shards.append(range(start, len(sizes)))
    return shards


def write_weights(
    folder: Path,
    layers: Sequence[Layer],
    dtype: str,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    threads: int = WRITER_THREADS,
) -> WrittenFiles:
    """Write every tensor, and an index if there is more than one shard. Every file is on the disk when this returns.

    Raises:
        ResourceError: the disk is full or the folder cannot be written.
        TryAgainError: the disk or its server has a temporary fault.
    """
    tensors = [tensor for layer in layers for tensor in layer.tensors]
    item = DTYPE_BYTES[dtype]
    shards = plan_shards([tensor.count * item for tensor in tensors], max_shard_bytes)
    names = [
        WEIGHTS_NAME if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        for number in range(1, len(shards) + 1)
    ]
    files: dict[str, FileEntry] = {}
    parameters = sum(tensor.count for tensor in tensors)
    memory = WeightMemory(count * item for layer in layers for count in layer.read_counts)
    with Progress("write weights", len(tensors), "tensors") as bar, ThreadPoolExecutor(threads) as pool:
        loaded = _in_order(pool, layers, threads, memory)
        for name, shard in zip(names, shards, strict=True):
            files[name] = _write_shard(folder / name, [tensors[number] for number in shard], loaded, dtype, bar)
    if len(shards) > 1:
        weight_map = {tensors[n].name: name for name, shard in zip(names, shards, strict=True) for n in shard}
        metadata = {"total_parameters": parameters, "total_size": parameters * item}
        write_json(folder / INDEX_NAME, {"metadata": metadata, "weight_map": weight_map})
    return WrittenFiles(parameters, files)


def _in_order(
    pool: ThreadPoolExecutor, layers: Sequence[Layer], ahead: int, memory: WeightMemory
) -> Iterator[torch.Tensor]:
    """Yield the tensors of all layers in order, while the pool loads at most `ahead` layers in advance."""
    waiting: deque[Future[list[torch.Tensor]]] = deque()
    following = iter(layers)
    try:
        for layer in following:
            waiting.append(pool.submit(layer.load, memory))
            if len(waiting) >= ahead:
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
        found = next(loaded)
        assert found.shape == tensor.shape, tensor.name
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
