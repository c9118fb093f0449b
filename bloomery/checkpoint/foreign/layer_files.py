"""Read the layer files of Megatron-DeepSpeed: `layer_XX-model_YY-model_states.pt` of each layer and tensor rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.files import forget_pages
from bloomery.checkpoint.foreign.arguments import read_arguments
from bloomery.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, OnDrift, embedding_shapes, one_dtype
from bloomery.checkpoint.foreign.open_pickle import open_pickle
from bloomery.checkpoint.foreign.places import IGNORED, WORDS, find_places

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter

_FILE = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")


def layer_files(folder: Path) -> dict[int, list[Path]]:
    """Return the files of each layer by tensor rank, both in order of their numbers.

    Raises:
        InputError: the file of a layer and rank is missing, or two files have the same numbers.
    """
    found: dict[int, dict[int, Path]] = {}
    count = 0
    for path in sorted(folder.iterdir()):
        if match := _FILE.fullmatch(path.name):
            count += 1
            layer, rank = int(match[1]), int(match[2])
            other = found.setdefault(layer, {}).setdefault(rank, path)
            if other is not path:
                raise InputError(
                    f"{other.name} and {path.name} are both the file of layer {layer} and tensor rank {rank}",
                    where=str(folder),
                    expected="the files of one checkpoint; remove one of these two files",
                )
    ranks = max((1 + rank for files in found.values() for rank in files), default=0)
    if ranks > count:
        # A wrong name must not make this function count to billions.
        last = next(files[ranks - 1] for files in found.values() if ranks - 1 in files)
        raise InputError(
            f"{last.name} is a file of tensor rank {ranks - 1}, but the folder has only {count} layer files",
            where=str(folder),
            expected="the files of all layers and tensor ranks; if the name of this file is wrong, remove the file",
        )
    for number in sorted(found):
        missing = [rank for rank in range(ranks) if rank not in found[number]]
        if missing:
            raise InputError(
                f"layer {number} has no file of tensor rank {missing[0]}, although there are {ranks} tensor ranks",
                where=str(folder),
                expected="the files of all layers and tensor ranks of one checkpoint",
            )
    return {number: [found[number][rank] for rank in range(ranks)] for number in sorted(found)}


class LayerFiles(ForeignCheckpoint):
    """A checkpoint of a training with pipeline stages. Its weights have the type of the training."""

    kind = "layer files of Megatron-DeepSpeed"

    def __init__(self, folder: Path, on_drift: OnDrift | None = None) -> None:
        """Read the arguments and the names of the tensors.

        Raises:
            InputError: a file is missing, damaged or of another kind of network.
        """
        self._files = layer_files(folder)
        self._open: tuple[int, list[dict[str, torch.Tensor]]] | None = None
        keys: dict[int, set[str]] = {}
        embedding: dict[str, torch.Tensor] = {}
        for number, files in self._files.items():
            state = _tensors(files[0])
            keys[number] = set(state)
            if WORDS in state:
                embedding = state
        places = find_places(keys, str(folder))
        word_shape, learned_rows = embedding_shapes(embedding)
        super().__init__(
            folder,
            read_arguments(folder),
            places,
            word_shape=word_shape,
            learned_rows=learned_rows,
            ranks=len(self._files[places.embedding]),
            dtype=one_dtype(embedding.values(), str(self._files[places.embedding][0])),
            on_drift=on_drift,
        )

    def another_reader(self) -> LayerFiles:
        """Return this checkpoint, opened again, so that another thread can read it at the same time."""
        found = super().another_reader()
        assert isinstance(found, LayerFiles)
        found._open = None
        return found

    def close(self, *, forget: bool = True) -> None:
        """Close the files of the layer that was read last.

        If `forget` is true, let the system forget their content. Choose False if other threads still read them.
        """
        if self._open is not None:
            number, self._open = self._open[0], None
            if forget:
                for path in self._files[number]:
                    forget_pages(path)

    def paths(self) -> list[Path]:
        """Return the layer files."""
        return [path for files in self._files.values() for path in files]

    def _check_layer(self, number: int, parameters: Sequence[Parameter]) -> None:
        declared = {self.places.of(parameter)[1] for parameter in parameters}
        for path, state in zip(self._files[number], self._layer(number), strict=True):
            unknown = state.keys() - declared - set(IGNORED)
            if unknown:
                raise CheckFailedError(
                    f"the file holds the unexpected tensor {min(unknown)}",
                    where=str(path),
                    expected=f"the tensors {', '.join(sorted(declared))}",
                )

    def _layer(self, number: int) -> list[dict[str, torch.Tensor]]:
        if self._open is None or self._open[0] != number:
            self._open = None
            self._open = (number, [_tensors(self.unchanged(path)) for path in self._files[number]])
        return self._open[1]

    def raw_shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank, as the files hold it."""
        number, key = self.places.of(parameter)
        found = []
        for path, state in zip(self._files[number], self._layer(number), strict=True):
            if key not in state:
                raise InputError(f"the file lacks the tensor {key}", where=str(path), expected="a complete file")
            found.append(state[key])
        return found


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a layer file by name."""
    import torch

    state = open_pickle(path)
    wrong = [name for name, value in state.items() if not isinstance(name, str) or not isinstance(value, torch.Tensor)]
    if wrong or not state:
        raise InputError(
            f"the entry {wrong[0]!r} is no tensor" if wrong else "the file holds no tensor",
            where=str(path),
            expected="the tensors of one layer, by name",
        )
    return state
