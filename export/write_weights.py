"""Write the weights of a transformers folder with only one safetensors shard in memory at a time.

The shards are planned from shapes alone, so file names (`model-00001-of-00072.safetensors`) are known before the first
tensor is read. The tied output head is not written, because transformers ties it again when it loads the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError, ResourceError
from bloomery.base.progress import Progress
from bloomery.spec.weight_files import DTYPE_BYTES, INDEX_NAME, MAX_SHARD_BYTES, WEIGHTS_NAME

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tensor:
    """One tensor to write."""

    name: str
    shape: tuple[int, ...]
    load: Callable[[], torch.Tensor]

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


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


def write_weights(folder: Path, tensors: Sequence[Tensor], dtype: str, max_shard_bytes: int = MAX_SHARD_BYTES) -> int:
    """Write every tensor, and an index if there is more than one shard; return the number of parameters.

    Raises:
        ResourceError: the disk is full or the folder cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    item = DTYPE_BYTES[dtype]
    shards = plan_shards([tensor.count * item for tensor in tensors], max_shard_bytes)
    weight_map: dict[str, str] = {}
    with Progress("write weights", len(tensors), "tensors") as bar:
        for number, shard in enumerate(shards, start=1):
            file = WEIGHTS_NAME if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            loaded: dict[str, torch.Tensor] = {}
            for position in shard:
                loaded[tensors[position].name] = tensors[position].load()
                bar.advance()
            try:
                save_file(loaded, folder / file, metadata={"format": "pt"})
            except SafetensorError as error:
                raise ResourceError(
                    "the weights of the model cannot be written",
                    where=str(folder / file),
                    expected="a writable folder with enough free space",
                ) from error
            weight_map |= dict.fromkeys(loaded, file)
    parameters = sum(tensor.count for tensor in tensors)
    if len(shards) > 1:
        metadata = {"total_parameters": parameters, "total_size": parameters * item}
        write_json(folder / INDEX_NAME, {"metadata": metadata, "weight_map": weight_map})
    return parameters
