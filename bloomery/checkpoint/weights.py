"""Read a checkpoint's weights from its layer files, one pipeline layer at a time. Files are verified before they are
opened.

The declared parameters, not the file names, determine which files and tensors must exist. Reading needs memory for one
parameter, or for the wanted part of it, in addition to the memory-mapped shards. BLOOM-176B's largest parameter, the
embedding, takes 7.2 GB in bf16.
"""

from __future__ import annotations

import copy
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.drift import DriftError, how_to_repair
from bloomery.checkpoint.files import OTHER_CHECKPOINT, forget_pages, open_state
from bloomery.checkpoint.merge import assemble, bits_equal, greatest_difference, narrowed, shards_of
from bloomery.config.explain_value import wrong_values
from bloomery.config.model import ModelConfig
from bloomery.contracts.checkpoint import CheckpointManifest, layer_file, read_checkpoint, verify_file
from bloomery.spec.parameters import declare, layer_count
from bloomery.spec.weight_files import PRECISION_DTYPES

if TYPE_CHECKING:
    import torch

    from bloomery.spec.placement import Parameter

_LAYER_FILE = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")
_SAME_FUNCTION = ("stable_attention",)
"""Keys of the section `model` that affect only rounding."""


class Checkpoint:
    """One checkpoint, opened for reading."""

    is_mapped = True
    """Whether the files are mapped (see `export.layers.WeightSource`)."""

    def __init__(self, folder: Path, model: ModelConfig | None = None, *, verified: bool = False) -> None:
        """Read the manifest and compare it with `model` and with the declared parameters.

        Args:
            folder: folder of the checkpoint.
            model: network that the checkpoint must contain; None for the network in its manifest.
            verified: whether all files were just compared with the manifest. If not, each file is compared before it is
                opened.

        Raises:
            InputError: the manifest is missing or of another version, or the checkpoint was trained with another
                network.
            CheckFailedError: layer files are missing, or there are layer files that belong to no declared layer.
        """
        self.folder = folder
        self.manifest: CheckpointManifest = read_checkpoint(folder)
        self.ranks = self.manifest.tensor_parallel
        self.model = _own_model(folder, self.manifest) if model is None else model
        self._check_model()
        self.parameters = declare(self.model, self.manifest.vocabulary_rows)
        self._check_file_names()
        self._verified = set(self.manifest.files) if verified else set[str]()
        self._file_locks: dict[str, threading.Lock] = {}
        """Lock of each file. If several threads need a file, one compares it with the manifest, and the others wait."""
        self._open: tuple[int, list[dict[str, torch.Tensor]]] | None = None
        self._layers_read: set[int] = set()

    def another_reader(self) -> Checkpoint:
        """Return this checkpoint, opened again, so that another thread can read it at the same time.

        Both objects share the list of files that were compared with the manifest.
        """
        found = copy.copy(self)
        found._open = None
        found._layers_read = set()
        return found

    def close(self, *, forget: bool = True) -> None:
        """Close the files that this reader has opened.

        Args:
            forget: whether to let the system forget the content of all files that this reader has opened. Choose False
                if other threads or processes still read these files, as the ranks of a training do.
        """
        self._open = None
        layers, self._layers_read = self._layers_read, set()
        if forget:
            for layer in layers:
                for rank in range(self.ranks):
                    forget_pages(self.folder / layer_file(layer, rank))

    def trained_with(self, key: str) -> str:
        """Return the text value of `training.<key>` in the configuration of the checkpoint's training.

        Raises:
            InputError: the manifest has no valid value of this key.
        """
        training = self.manifest.config.get("training")
        value = training.get(key) if isinstance(training, dict) else None
        if not isinstance(value, str) or (key == "precision" and value not in PRECISION_DTYPES):
            raise InputError(
                f"the configuration in the checkpoint's manifest.json has no valid value of training.{key}",
                where=str(self.folder),
                expected=f"a manifest.json that the training wrote; {OTHER_CHECKPOINT}",
            )
        return value

    def _check_model(self) -> None:
        # The manifest is parsed as a configuration, so that keys that an older version did not write get defaults.
        trained = _own_model(self.folder, self.manifest).model_dump(mode="json")
        expected = self.model.model_dump(mode="json")
        different = [key for key in sorted(expected) if trained[key] != expected[key] and key not in _SAME_FUNCTION]
        if different:
            raise InputError(
                "the checkpoint was trained with a different network: "
                + "; ".join(
                    f"model.{key} is {trained[key]!r} in the checkpoint and {expected[key]!r} in the configuration"
                    for key in different
                ),
                where=str(self.folder),
                expected="the checkpoint's values in the section `model`; to train another network, choose another run "
                "name",
            )
        if self.manifest.layers != layer_count(self.model):
            raise InputError(
                f"the checkpoint has {self.manifest.layers} pipeline layers",
                where=str(self.folder),
                expected=f"{layer_count(self.model)} pipeline layers for {self.model.layers} blocks; "
                f"{OTHER_CHECKPOINT}",
            )

    def _check_file_names(self) -> None:
        uneven = [each.name for each in self.parameters if not each.is_divisible(self.ranks)]
        if uneven:
            raise InputError(
                f"the parameter {uneven[0]} of the network in the checkpoint's manifest.json cannot be divided among "
                f"{self.ranks} tensor ranks (vocabulary_rows {self.manifest.vocabulary_rows})",
                where=str(self.folder),
                expected=f"sizes that are multiples of tensor_parallel; {OTHER_CHECKPOINT}",
            )
        in_manifest = {name for name in self.manifest.files if _LAYER_FILE.fullmatch(name)}
        # Each layer with parameters has a file for each tensor rank. A wrong `tensor_parallel` must not make this
        # method list billions of names.
        if self.ranks > len(in_manifest):
            raise CheckFailedError(
                f"the checkpoint's manifest.json lists {len(in_manifest)} layer files for tensor_parallel {self.ranks}",
                where=str(self.folder),
                expected=f"at least one layer file for each tensor rank; {OTHER_CHECKPOINT}",
            )
        needed = {layer_file(parameter.layer, rank) for parameter in self.parameters for rank in range(self.ranks)}
        # A layer without parameters also has a file.
        possible = {layer_file(layer, rank) for layer in range(self.manifest.layers) for rank in range(self.ranks)}
        for problem, names in (
            ("the checkpoint's manifest.json does not list", needed - in_manifest),
            ("the checkpoint's manifest.json lists files of unknown layers or ranks:", in_manifest - possible),
        ):
            if names:
                raise CheckFailedError(
                    f"{problem} {', '.join(sorted(names)[:3])}{' ...' if len(names) > 3 else ''}",
                    where=str(self.folder),
                    expected=f"files of {self.manifest.layers} pipeline layers on {self.ranks} tensor ranks; "
                    f"{OTHER_CHECKPOINT}",
                )

    def file(self, name: str) -> Path:
        """Return the path of a file after comparing its content with the manifest.

        Raises:
            CheckFailedError: the content differs from the manifest.
        """
        with self._file_locks.setdefault(name, threading.Lock()):
            if name not in self._verified:
                verify_file(self.folder, self.manifest, name)
                self._verified.add(name)
        return self.folder / name

    def has_layer(self, layer: int) -> bool:
        """Return whether the pipeline layer has its own files (a tied head may have none)."""
        return layer_file(layer, 0) in self.manifest.files

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
            CheckFailedError: replicas (on the tensor ranks, or copies of a tied parameter) are not bit-equal, a file
                differs from the manifest, or a file has missing or unexpected keys, wrong shapes or wrong types.
            InputError: a file is not a state dict.
        """
        shards = self.shards(parameter)
        for layer in parameter.tied_layers:
            if self.has_layer(layer):
                self._check_tied(parameter, shards, layer, wanted)
        return assemble(
            parameter,
            lambda rank, indices: narrowed(parameter, shards[rank], indices),
            self.ranks,
            dtype,
            wanted=wanted,
            out=out,
            what=parameter.name,
            where=str(self.folder),
        )

    def shards(self, parameter: Parameter, layer: int | None = None) -> list[torch.Tensor]:
        """Return the parameter's tensor on each tensor rank, memory-mapped.

        `layer` selects the copy of a tied parameter in that layer. If it is None, the owner's tensors are returned.

        Raises:
            CheckFailedError: a file differs from the manifest or has missing or unexpected keys, wrong shapes or wrong
                types.
            InputError: a file is not a state dict.
        """
        number = parameter.layer if layer is None else layer
        if self._open is None or self._open[0] != number:
            self._open = None
            self._layers_read.add(number)
            self._open = (number, [self._load(number, rank) for rank in range(self.ranks)])
        return [state[parameter.local_name] for state in self._open[1]]

    def _load(self, layer: int, rank: int) -> dict[str, torch.Tensor]:
        import torch

        path = self.file(layer_file(layer, rank))
        state = open_state(path)
        expected = {p.local_name: p for p in self.parameters if layer == p.layer or layer in p.tied_layers}
        for problem, keys in (
            ("the file lacks the key", expected.keys() - state.keys()),
            ("the file has the unexpected key", state.keys() - expected.keys()),
        ):
            if keys:
                raise CheckFailedError(
                    f"{problem} {', '.join(sorted(map(str, keys)))}",
                    where=str(path),
                    expected=f"the keys {', '.join(sorted(expected))}; {OTHER_CHECKPOINT}",
                )
        right = PRECISION_DTYPES[self.trained_with("precision")]
        for key, parameter in expected.items():
            shape = parameter.shard_shape(self.ranks)
            if tuple(state[key].shape) != shape:
                raise CheckFailedError(
                    f"tensor {key} has shape {tuple(state[key].shape)}",
                    where=str(path),
                    expected=f"shape {shape}; {OTHER_CHECKPOINT}",
                )
            if state[key].dtype != getattr(torch, right):
                raise CheckFailedError(
                    f"tensor {key} has type {state[key].dtype}",
                    where=str(path),
                    expected=f"type torch.{right}, as training.precision requires; {OTHER_CHECKPOINT}",
                )
        return state

    def _check_tied(self, parameter: Parameter, shards: list[torch.Tensor], layer: int, wanted: range | None) -> None:
        # Compare only the rows that are read. Otherwise each rank of BLOOM's first and last stage would compare 14 GB
        # at every load, and an export would compare all rows again for each of its slices.
        copies = self.shards(parameter, layer)
        for rank, indices in shards_of(parameter, self.ranks, wanted):
            owner, copy = narrowed(parameter, shards[rank], indices), narrowed(parameter, copies[rank], indices)
            if not bits_equal(owner, copy):
                raise DriftError(
                    f"{parameter.name} is tied to pipeline layer {layer}, but {layer_file(layer, rank)} differs from "
                    f"{layer_file(parameter.layer, rank)} by up to {greatest_difference(owner, copy):.3g}",
                    where=str(self.folder),
                    expected=f"bit-equal copies of a tied parameter; {how_to_repair(self.folder)}",
                )


def _own_model(folder: Path, manifest: CheckpointManifest) -> ModelConfig:
    try:
        return ModelConfig.model_validate(manifest.config.get("model"))
    except ValidationError as error:
        raise InputError(
            f"this version of Bloomery cannot read the section `model` in the checkpoint's manifest.json: "
            f"{wrong_values(error, ModelConfig)}",
            where=str(folder),
            expected="the version of Bloomery that saved the checkpoint",
        ) from error
