"""Read universal checkpoints of DeepSpeed: `zero/<parameter>/fp32.pt`, which `ds_to_universal.py` writes.

They hold the fp32 master weights, merged over all ranks. The rows that pad the vocabulary are removed already.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import InputError
from bloomery.checkpoint.foreign.arguments import read_arguments
from bloomery.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, embedding_shapes, one_dtype
from bloomery.checkpoint.foreign.open_pickle import open_pickle
from bloomery.checkpoint.foreign.places import find_places
from bloomery.checkpoint.optimizer_state import declared_key

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter

FOLDER, FILE = "zero", "fp32.pt"
_TIED = -1
"""Number of the layer of tied parameters, whose names state no layer."""


class Universal(ForeignCheckpoint):
    """A universal checkpoint. Its weights are fp32, and they can be rounded to the type of the training."""

    kind = "universal checkpoint of DeepSpeed"

    def __init__(self, folder: Path, *, rounded: bool = False) -> None:
        """Read the arguments and the names of the parameters.

        Args:
            folder: folder with the folder `zero`.
            rounded: whether to round the weights to the type of the training.

        Raises:
            InputError: a file is missing, damaged or of another kind of network.
        """
        self._paths: dict[tuple[int, str], Path] = {}
        layers: dict[int, set[str]] = {}
        for path in sorted((folder / FOLDER).glob(f"*/{FILE}")):
            layer, key = declared_key(path.parent.name)
            number = _TIED if layer is None else layer
            if layer == -1:
                raise InputError(
                    f"the name of the parameter {path.parent.name} states no layer",
                    where=str(folder / FOLDER),
                    expected="names such as 3.self_attention.dense.weight; checkpoints without pipeline stages are not "
                    "read",
                )
            layers.setdefault(number, set()).add(key)
            self._paths[number, key] = path
        places = find_places(layers, str(folder / FOLDER))
        embedding = {key: _tensor(self._paths[places.embedding, key]) for key in layers[places.embedding]}
        arguments = read_arguments(folder)
        self._rounded_to = arguments.dtype if rounded else None
        word_shape, learned_rows = embedding_shapes(embedding)
        stored = one_dtype(embedding.values(), str(folder / FOLDER))
        super().__init__(
            folder,
            arguments,
            places,
            word_shape=word_shape,
            learned_rows=learned_rows,
            ranks=1,
            dtype=self._rounded_to or stored,
            on_drift=None,
        )
        self.stored_dtype = stored

    def paths(self) -> list[Path]:
        """Return the files of the fp32 weights."""
        return [self._paths[key] for key in sorted(self._paths)]

    def _check_layer(self, number: int, parameters: Sequence[Parameter]) -> None:
        declared = {self.places.of(parameter)[1] for parameter in parameters}
        for key in self.places.keys[number] - declared:
            raise InputError(
                f"the checkpoint holds the unexpected parameter {self._paths[number, key].parent.name}",
                where=str(self.folder),
                expected=f"the parameters {', '.join(sorted(declared))} in this layer",
            )

    def raw_shards(self, parameter: Parameter) -> list[torch.Tensor]:
        """Return the parameter as the only shard of the only tensor rank, in fp32."""
        path = self._paths.get(self.places.of(parameter))
        if path is None:
            raise InputError(
                f"the checkpoint lacks the parameter {self.places.of(parameter)[1]} of layer "
                f"{self.places.of(parameter)[0]}",
                where=str(self.folder / FOLDER),
                expected="the parameters of the whole network",
            )
        return [_tensor(self.unchanged(path))]

    def rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a file, or a part of it, rounded to `dtype`."""
        import torch

        return tensor if self._rounded_to is None else tensor.to(getattr(torch, self._rounded_to))


def _tensor(path: Path) -> torch.Tensor:
    """Return the tensor of a file."""
    import torch

    value: Any = open_pickle(path).get("param")
    if not isinstance(value, torch.Tensor):
        raise InputError(
            "the file holds no tensor 'param'",
            where=str(path),
            expected="a file that ds_to_universal.py of DeepSpeed wrote",
        )
    return value
