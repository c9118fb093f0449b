"""A checkpoint's layer files: which checkpoint, verified before anything of it is unpickled, opened by memory map.

Optimizer files are never opened. What must be there follows from the declared parameters, not from file names.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.config.model import ModelConfig
from bloomery.contracts.checkpoint import CheckpointManifest, layer_file, read_checkpoint, verify_file
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment
from bloomery.plan.parameters import declare, layer_count

if TYPE_CHECKING:
    import torch

    from bloomery.contracts.placement import Parameter

_LAYER_FILE = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")


def choose_checkpoint(paths: RunPaths, name: str | None) -> Path:
    """Folder of checkpoint `name`, or, without a name, of the last one of a finished training.

    Raises:
        CheckFailedError: the training has not finished and no checkpoint is named.
        InputError: there is no such checkpoint.
    """
    if name is None:
        by_hand = "a finished training, or a checkpoint by name: --checkpoint step00000100"
        if not paths.finished.is_file():
            raise CheckFailedError("the training has not finished", where=str(paths.finished), expected=by_hand)
        segment = read_segment(paths.finished)
        if segment.status is not SegmentStatus.FINISHED or segment.checkpoint is None:
            raise CheckFailedError(
                f"the training has not finished: segment {segment.number} ended as {segment.status} at iteration "
                f"{segment.iteration} of {segment.total_iterations}",
                where=str(paths.finished),
                expected=by_hand,
            )
        name = segment.checkpoint
    folder = paths.checkpoints / name
    if not folder.is_dir():
        raise InputError("no such checkpoint", where=str(folder), expected="a folder below train/checkpoints")
    return folder


class Checkpoint:
    """One checkpoint, opened for reading one pipeline layer at a time."""

    def __init__(self, folder: Path, model: ModelConfig) -> None:
        """Read the manifest and compare it with `model` and with the declared parameters.

        Raises:
            InputError: no manifest, or trained with another network than `model`.
            CheckFailedError: layer files are missing, or there are some that no parameter explains.
        """
        self.folder = folder
        self.model = model
        self.manifest: CheckpointManifest = read_checkpoint(folder)
        self.ranks = self.manifest.tensor_parallel
        self._check_model()
        self.parameters = declare(model, self.manifest.vocabulary_rows)
        self._check_file_names()
        self._open: tuple[int, list[dict[str, torch.Tensor]]] | None = None

    def _check_model(self) -> None:
        trained = self.manifest.config.get("model")
        expected = self.model.model_dump(mode="json")
        if isinstance(trained, dict) and trained != expected:
            different = sorted(key for key in trained.keys() | expected if trained.get(key) != expected.get(key))
            raise InputError(
                "was trained with another network than the configuration says: "
                + ", ".join(f"model.{key} {trained.get(key)!r} there, {expected.get(key)!r} here" for key in different),
                where=str(self.folder),
                expected="the model section that the checkpoint was trained with",
            )
        if self.manifest.layers != layer_count(self.model):
            raise InputError(
                f"has {self.manifest.layers} pipeline layers",
                where=str(self.folder),
                expected=f"{layer_count(self.model)} for {self.model.layers} blocks",
            )

    def _check_file_names(self) -> None:
        listed = {name for name in self.manifest.files if _LAYER_FILE.fullmatch(name)}
        needed = {layer_file(parameter.layer, rank) for parameter in self.parameters for rank in range(self.ranks)}
        tied = {
            layer_file(layer, rank)
            for parameter in self.parameters
            for layer in parameter.tied_layers
            for rank in range(self.ranks)
        }
        for problem, names in (
            ("the manifest lists no", needed - listed),
            ("no declared parameter explains", listed - needed - tied),
        ):
            if names:
                raise CheckFailedError(
                    f"{problem} {', '.join(sorted(names)[:3])}{' ...' if len(names) > 3 else ''}",
                    where=str(self.folder),
                    expected=f"layer files of {self.manifest.layers} pipeline layers on {self.ranks} tensor ranks",
                )

    def has_layer(self, layer: int) -> bool:
        """Whether the pipeline layer has files of its own (a tied head may have none)."""
        return layer_file(layer, 0) in self.manifest.files

    def shards(self, parameter: Parameter, layer: int | None = None) -> list[torch.Tensor]:
        """The parameter's tensor on each tensor rank, memory-mapped; `layer` picks a tied copy instead of the owner.

        Raises:
            CheckFailedError: a file differs from the manifest, lacks a key, has one more, or a wrong shape or type.
        """
        number = parameter.layer if layer is None else layer
        if self._open is None or self._open[0] != number:
            self._open = None
            self._open = (number, [self._load(number, rank) for rank in range(self.ranks)])
        return [state[parameter.local_name] for state in self._open[1]]

    def _load(self, layer: int, rank: int) -> dict[str, torch.Tensor]:
        import torch

        path = verify_file(self.folder, self.manifest, layer_file(layer, rank))
        try:
            state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
            raise InputError(f"not a state dict that torch can read safely ({error})", where=str(path)) from error
        expected = {p.local_name: p for p in self.parameters if layer == p.layer or layer in p.tied_layers}
        for problem, keys in (
            ("lacks the key", expected.keys() - state.keys()),
            ("has the unexpected key", state.keys() - expected.keys()),
        ):
            if keys:
                raise CheckFailedError(
                    f"{problem} {', '.join(sorted(map(str, keys)))}",
                    where=str(path),
                    expected=", ".join(sorted(expected)),
                )
        for key, parameter in expected.items():
            shape = parameter.shard_shape(self.ranks)
            if tuple(state[key].shape) != shape:
                raise CheckFailedError(
                    f"{key} has shape {tuple(state[key].shape)}", where=str(path), expected=f"{shape}"
                )
            if state[key].dtype not in (torch.bfloat16, torch.float32):
                raise CheckFailedError(
                    f"{key} has type {state[key].dtype}", where=str(path), expected="bfloat16 or float32"
                )
        return dict(state)
