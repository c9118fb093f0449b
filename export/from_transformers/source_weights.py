"""Read the weights of a transformers folder under the names of its family, after checking that it has all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from bloomery.base.errors import InputError
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter
from bloomery.spec.transformers_families.family import HEAD, Transform
from bloomery.spec.weight_files import DTYPE_BYTES, PRECISION_DTYPES
from export.from_transformers.find_weights import Tensors, open_weights, weight_files
from export.from_transformers.read_network import Network
from export.transform import to_training

_SHOWN = 5


class SourceWeights:
    """Weights of a transformers folder, by the names that the whole model has in transformers."""

    def __init__(self, folder: Path, network: Network, precision: str | None = None) -> None:
        """Find every tensor and compare the names and shapes with those of the network.

        Args:
            folder: the transformers folder.
            network: the network of the folder.
            precision: `bf16`, `fp16` or `fp32`, to which the weights are rounded. None for the type of the folder, or
                `fp32` if its tensors have several types.

        Raises:
            InputError: a file is damaged, tensors are missing or unknown, or a shape or a type is wrong.
        """
        self.folder, self.network = folder, network
        self._open: tuple[Path, Tensors] | None = None
        self._files: dict[str, tuple[Path, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Shape of each tensor, by its name in transformers."""
        self._dtypes: dict[str, str] = {}
        for path in weight_files(folder):
            self._add(path)
        self._drop_tied_head()
        self._check_names_and_shapes()
        self.precision = precision or self._own_precision()
        """Precision of the weights that are read."""
        self.dtype: torch.dtype = getattr(torch, PRECISION_DTYPES[self.precision])

    @property
    def is_rounded(self) -> bool:
        """Whether the weights that are read are not bit-equal to those of the folder."""
        return any(found not in (PRECISION_DTYPES[self.precision], *_exact(self.precision)) for found in self._types())

    def _types(self) -> set[str]:
        return set(self._dtypes.values())

    def _add(self, path: Path) -> None:
        """Record the tensors of one file."""
        opened, family = self._opened(path), self.network.family
        for own in opened.names():
            name = family.loaded_name(own)
            if name.endswith(family.buffers):
                continue
            if name in self._files:
                raise InputError(
                    f"the tensor {name} is stored twice", where=str(path), expected="each tensor in one file"
                )
            self._files[name] = (path, own)
            self.shapes[name], self._dtypes[name] = opened.shape(own), opened.dtype(own)

    def _drop_tied_head(self) -> None:
        """Leave out the copy of a tied head, after comparing it with the embedding.

        Raises:
            InputError: config.json states that the head is tied, but the two matrices differ.
        """
        words = self.network.family.targets["word_embeddings.weight"].name
        if not self.network.model.tied_embeddings or HEAD not in self._files or words not in self._files:
            return
        head = self._stored(HEAD).clone()
        if not torch.equal(head, self._stored(words)):
            raise InputError(
                f"{HEAD} and {words} differ, although config.json states that they are tied",
                where=str(self.folder),
                expected="equal matrices, or tie_word_embeddings false in config.json",
            )
        del self._files[HEAD], self.shapes[HEAD], self._dtypes[HEAD]

    def _check_names_and_shapes(self) -> None:
        family, model = self.network.family, self.network.model
        expected = {}
        for parameter in declare(model, self.network.rows):
            target = family.target(parameter)
            expected[target.name] = target.shape(parameter.shape)
        for problem, names in (
            ("the weights lack", expected.keys() - self.shapes.keys()),
            ("the weights have unknown tensors:", self.shapes.keys() - expected.keys()),
        ):
            if names:
                shown = ", ".join(sorted(names)[:_SHOWN])
                raise InputError(
                    f"{problem} {shown}{f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}",
                    where=str(self.folder),
                    expected=f"exactly the {len(expected)} tensors of a {family.architecture} with {model.layers} "
                    f"blocks and {'a tied' if model.tied_embeddings else 'its own'} head, as config.json states",
                )
        wrong = [name for name in sorted(expected) if self.shapes[name] != expected[name]]
        if wrong:
            name = wrong[0]
            raise InputError(
                f"the tensor {name} has shape {list(self.shapes[name])}",
                where=str(self._files[name][0]),
                expected=f"shape {list(expected[name])}, as the sizes in config.json require",
            )
        strange = sorted(name for name, dtype in self._dtypes.items() if dtype not in DTYPE_BYTES)
        if strange:
            raise InputError(
                f"the tensor {strange[0]} has type {self._dtypes[strange[0]]}",
                where=str(self._files[strange[0]][0]),
                expected="weights of type float32, float16 or bfloat16",
            )

    def _own_precision(self) -> str:
        types = self._types()
        if len(types) > 1:
            return "fp32"
        return next(precision for precision, dtype in PRECISION_DTYPES.items() if dtype in types)

    def _opened(self, path: Path) -> Tensors:
        """Return the open file, after closing the one that was open before."""
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = (path, open_weights(path))
        return self._open[1]

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _stored(self, name: str) -> torch.Tensor:
        path, own = self._files[name]
        return self._opened(path).tensor(own)

    def part(self, parameter: Parameter, wanted: range | None) -> torch.Tensor:
        """Return a declared parameter in fp32, contiguous and not rounded, or only the indices `wanted` of its split
        dimension. Rows of the embedding that the folder does not have are zero.

        Raises:
            InputError: a value is not finite, or too large for the precision.
        """
        target = self.network.family.target(parameter)
        stored, dimension = self._stored(target.name), parameter.placement.dimension
        if target.transform is Transform.NONE and wanted is not None and dimension is not None:
            # Only this part of a memory-mapped file is read.
            size = stored.shape[dimension]
            there = range(min(wanted.start, size), min(wanted.stop, size))
            found = stored.narrow(dimension, there.start, len(there)).float()
            wanted_here: range | None = None
            missing = len(wanted) - len(there)
        else:
            found = to_training(stored.float(), target.transform, self.network.model.heads)
            wanted_here, missing = wanted, parameter.shape[0] - found.shape[0]
        self._check_range(target.name, found)
        if missing:
            found = torch.cat((found, found.new_zeros(missing, *found.shape[1:])))
        if wanted_here is not None and dimension is not None:
            found = found.narrow(dimension, wanted_here.start, len(wanted_here))
        return found.contiguous()

    def _check_range(self, name: str, found: torch.Tensor) -> None:
        if found.numel() and not bool(found.abs().max() <= torch.finfo(self.dtype).max):  # also refuses NaN
            raise InputError(
                f"the tensor {name} has values that are not finite in {self.precision}",
                where=str(self._files[name][0]),
                expected="finite weights; if the weights of the folder are finite, choose another --precision",
            )

    def tensor(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return a tensor in fp32, after rounding it to the type `dtype`, in the memory `out` or in new memory."""
        found = self._stored(name).to(self.dtype)
        return found.to(torch.float32, copy=True) if out is None else out.copy_(found)

    def expect(self, names: Sequence[str]) -> None:
        """Do nothing, because the files are mapped, and the system reads ahead."""

    def slices(self, name: str, rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row and the fp32 rows of consecutive slices of `rows` rows of a tensor."""
        for first in range(0, self.shapes[name][0], rows):
            yield first, self._stored(name)[first : first + rows].to(self.dtype).float()

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        """Return the rows `wanted` (int64 [count]) of a matrix in fp32, [count, columns]."""
        return self._stored(name)[wanted].to(self.dtype).float()


def _exact(precision: str) -> tuple[str, ...]:
    """Return the types whose values are exact in a precision, besides its own type."""
    return ("bfloat16", "float16") if precision == "fp32" else ()
