"""Define a checkpoint of another project: its network, its parameters, and what was found when its files were hashed.

Such a checkpoint has no manifest. Its files are therefore hashed when they are seen for the first time, and a file that
changes later is an error. Replicas on the tensor ranks must be equal. If they are not, the user decides what to do.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import track
from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.foreign.arguments import Arguments
from bloomery.checkpoint.foreign.open_pickle import can_be_mapped
from bloomery.checkpoint.foreign.places import POSITIONS, WORDS, Places
from bloomery.checkpoint.merge import assemble, bits_equal, greatest_difference, narrowed
from bloomery.contracts.file_entry import FileEntry
from bloomery.spec.parameters import declare

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter

OnDrift = Literal["mean-fp32", "rank0"]
_NAMED = 5
"""Number of drifted tensors that an error names."""


class ForeignCheckpoint(ABC):
    """A checkpoint that Megatron-DeepSpeed wrote.

    It implements `export.proof.split_model.Pieces` and `export.layers.WeightSource`.
    """

    kind: str
    """Name of the layout for users."""

    def __init__(
        self,
        folder: Path,
        arguments: Arguments,
        places: Places,
        *,
        word_shape: Sequence[int],
        learned_rows: int | None,
        ranks: int,
        dtype: str,
        on_drift: OnDrift | None,
    ) -> None:
        """Declare the network.

        Args:
            folder: folder of the checkpoint.
            arguments: arguments of the training.
            places: layer and name of each parameter.
            word_shape: shape of the first rank's shard of the token embedding.
            learned_rows: number of learned positions; None if the checkpoint has none.
            ranks: number of tensor ranks.
            dtype: data type of the tensors in the files, such as `bfloat16`.
            on_drift: value that replaces differing replicas; None if they are an error.

        Raises:
            InputError: the arguments do not describe the network of the files.
        """
        self.folder, self.arguments, self.places = folder, arguments, places
        self.ranks, self.dtype, self.on_drift = ranks, dtype, on_drift
        self.stored_dtype = dtype
        """Data type of the tensors in the files. It differs from `dtype` if the tensors are rounded."""
        self.model = arguments.network(
            places.embedding_keys, layers=len(places.blocks), learned_rows=learned_rows, tied=places.head is None
        )
        if len(word_shape) != 2:
            raise InputError(
                f"the token embedding has shape {tuple(word_shape)}",
                where=str(folder),
                expected="two dimensions: rows of the vocabulary and features",
            )
        self.rows = word_shape[0] * ranks
        self.entries = min(self.arguments.entries or self.rows, self.rows)
        self.parameters: list[Parameter] = declare(self.model, self.rows)
        self._check_divisible()
        self.files: dict[str, FileEntry] = {}
        """Size and SHA-256 of each file, by its path in the folder."""
        self.drift: dict[str, float] = {}
        """Greatest difference between two replicas of each parameter whose replicas differ."""
        self._stamps: dict[Path, tuple[int, int]] = {}

    def _check_divisible(self) -> None:
        uneven = [parameter.name for parameter in self.parameters if not parameter.is_divisible(self.ranks)]
        if uneven:
            raise InputError(
                f"{uneven[0]} cannot be divided among {self.ranks} tensor ranks",
                where=str(self.folder),
                expected="the files of all tensor ranks, and of one checkpoint only",
            )

    @abstractmethod
    def raw_shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank, as the files hold it.

        Raises:
            InputError: a file is damaged or lacks the tensor.
        """

    @abstractmethod
    def paths(self) -> list[Path]:
        """Return the files that hold the parameters, in order of the layers."""

    @abstractmethod
    def _check_layer(self, number: int, parameters: Sequence[Parameter]) -> None:
        """Check that the files of a layer hold no tensor other than those of `parameters`."""

    @cached_property
    def is_mapped(self) -> bool:
        """Whether all files can be memory-mapped. If not, each reader reads whole files into memory."""
        return all(map(can_be_mapped, self.paths()))

    def another_reader(self) -> ForeignCheckpoint:
        """Return this checkpoint, opened again, so that another thread can read it at the same time."""
        return copy.copy(self)

    def close(self, *, forget: bool = True) -> None:  # noqa: B027 (most layouts keep no file open)
        """Close the files of the layer that was read last.

        If `forget` is true, let the system forget their content. Choose False if other threads still read them.
        """

    def rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a file, or a part of it, rounded to `dtype`."""
        return tensor

    def inspect(self) -> None:
        """Hash every file, and check the names, shapes and types of all tensors and the equality of all replicas.

        Raises:
            DriftError: replicas differ, and `on_drift` is None.
            CheckFailedError: a tensor has another shape or type.
            InputError: a file is damaged, or holds unknown tensors.
        """
        paths = [self.arguments.path, *self.paths()]
        for path in track(paths, "hash the checkpoint", len(paths), "files"):
            self.files[path.relative_to(self.folder).as_posix()] = FileEntry.of(path)
            self._stamps[path] = _stamp(path)
        layers: dict[int, list[Parameter]] = {}
        for parameter in self.parameters:
            layers.setdefault(self.places.of(parameter)[0], []).append(parameter)
        for number, parameters in track(layers.items(), "check the checkpoint", len(layers), "layers"):
            self._check_layer(number, parameters)
            for parameter in parameters:
                self._check_parameter(parameter)
        if self.drift and self.on_drift is None:
            raise self._drift_error()

    def _check_parameter(self, parameter: Parameter) -> None:
        import torch

        shards, shape = self.raw_shards(parameter), parameter.shard_shape(self.ranks)
        for rank, shard in enumerate(shards):
            if tuple(shard.shape) != shape or self.rounded(shard[:0]).dtype != getattr(torch, self.dtype):
                raise CheckFailedError(
                    f"tensor rank {rank} holds {parameter.name} with shape {tuple(shard.shape)} and type {shard.dtype}",
                    where=str(self.folder),
                    expected=f"shape {shape} and type torch.{self.dtype}, as the other files and the arguments of the "
                    "training require",
                )
        if parameter.placement.dimension is None:
            different = [shard for shard in shards[1:] if not bits_equal(shards[0], shard)]
            if different:
                self.drift[parameter.name] = max(greatest_difference(shards[0], each) for each in different)

    def _drift_error(self) -> DriftError:
        named = [f"{name} (by up to {difference:.3g})" for name, difference in list(self.drift.items())[:_NAMED]]
        more = f" and {len(self.drift) - _NAMED} more" if len(self.drift) > _NAMED else ""
        return DriftError(
            f"the replicas of {len(self.drift)} parameters differ between tensor ranks: {', '.join(named)}{more}",
            where=str(self.folder),
            expected="bit-equal replicas; they differ if the ranks applied different updates. To export the checkpoint "
            "nevertheless, choose --on-drift rank0 or --on-drift mean-fp32; the model card records the choice",
        )

    def shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank. Replicas that differ are replaced as `on_drift` states.

        Raises:
            CheckFailedError: a file has changed since it was hashed.
            InputError: a file is damaged.
        """
        return [self.rounded(shard) for shard in self._equal_shards(parameter)]

    def _equal_shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank, before it is rounded."""
        import torch

        found = self.raw_shards(parameter)
        if parameter.name not in self.drift:
            return found
        if self.on_drift == "rank0":
            return [found[0]] * len(found)
        # One copy is added at a time, so that memory holds only one sum for any number of ranks.
        total = torch.zeros(found[0].shape, dtype=torch.float64)
        for each in found:
            total += each
        return [(total / len(found)).float().to(found[0].dtype)] * len(found)

    def weight(
        self,
        parameter: Parameter,
        dtype: torch.dtype,
        wanted: range | None = None,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the contiguous parameter in `dtype`, or only the indices `wanted` of its split dimension.

        `out` is memory for the result (see `assemble`).

        Raises:
            CheckFailedError: a file has changed since it was hashed.
            InputError: a file is damaged.
        """
        shards = self._equal_shards(parameter)
        return assemble(
            parameter,
            lambda rank, indices: self.rounded(narrowed(parameter, shards[rank], indices)),
            self.ranks,
            dtype,
            wanted=wanted,
            out=out,
            what=parameter.name,
            where=str(self.folder),
        )

    def unchanged(self, path: Path) -> Path:
        """Return `path` after checking that the file has the size and time that it had when it was hashed.

        Raises:
            CheckFailedError: the file has changed.
        """
        expected = self._stamps.get(path)
        if expected is not None and _stamp(path) != expected:
            raise CheckFailedError(
                "the file has changed since it was hashed",
                where=str(path),
                expected="a checkpoint that no program writes; start the export again",
            )
        return path


def _stamp(path: Path) -> tuple[int, int]:
    """Return the size in bytes and the time of the last change of a file."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def one_dtype(tensors: Iterable[torch.Tensor], where: str) -> str:
    """Return the data type of tensors, such as `bfloat16`.

    Raises:
        InputError: the type is none of the three types of weights.
    """
    import torch

    names = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}
    found = {tensor.dtype for tensor in tensors}
    if len(found) != 1 or not found <= names.keys():
        raise InputError(
            f"the tensors have the types {', '.join(sorted(map(str, found)))}",
            where=where,
            expected="one of torch.bfloat16, torch.float16 and torch.float32",
        )
    return names[found.pop()]


def embedding_shapes(state: dict[str, torch.Tensor]) -> tuple[tuple[int, ...], int | None]:
    """Return the shape of the token embedding, and the number of learned positions or None."""
    learned = state.get(POSITIONS)
    return tuple(state[WORDS].shape), None if learned is None else len(learned)
