"""Find tensors that are not finite: in a file that is being saved, and in the state of a trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from bloomery.checkpoint.finite import is_finite
from bloomery.checkpoint.optimizer_state import MASTER, declared_key
from bloomery.spec.parameters import declare

if TYPE_CHECKING:
    from bloomery.spec.placement import Parameter
    from training.loop.build_engine import Trainer

_LAYER_FILE = re.compile(r"layer_(\d+)-model_\d+-model_states\.pt")
_MASTERS, _BASE, _SLICES = "single_partition_of_fp32_groups", "base_optimizer_state", "param_slice_mappings"

Keys = tuple[str | int, ...]
"""Keys and list indices that lead to a tensor in a nested state."""


def not_finite_in_file(name: str, state: Any, parameters: Sequence[Parameter]) -> str | None:
    """Describe the first tensor of a saved state that is not finite. Return None if all tensors are finite.

    Args:
        name: name of the file that holds the state. The name of a layer's file contains the layer's number.
        state: nested dictionaries, lists and tuples with tensors.
        parameters: declared parameters of the model, whose names are used in the description.
    """
    for path, tensor in _tensors(state):
        if not is_finite(tensor):
            return _described(name, state, path, tensor, parameters)
    return None


def not_finite_weight(trainer: Trainer) -> str | None:
    """Describe the first weight on this rank that is not finite. Return None if all weights are finite."""
    return next((f"weight {name}" for name, weight in _weights(trainer) if not is_finite(weight)), None)


def not_finite_in_trainer(trainer: Trainer) -> str | None:
    """Describe the first weight, master weight or moment of this rank that is not finite. None if all are finite."""
    base = trainer.engine.optimizer.optimizer
    flats = [flat for group in base.param_groups for flat in group["params"]]
    for name, weight in _weights(trainer):
        if not is_finite(weight):
            return f"weight {name}"
        mapping = weight._hp_mapping
        if mapping is None:
            # With ZeRO, another replica holds this parameter's optimizer state and checks it.
            continue
        if not is_finite(mapping.hp_fragment):
            return _kind(MASTER, name)
        there = mapping.hp_fragment_address
        for kind, moment in base.state[flats[mapping.param_group_index]].items():
            is_moment = torch.is_tensor(moment) and moment.dim() == 1
            if is_moment and not is_finite(moment.narrow(0, there.start, there.numel)):
                return _kind(kind, name)
    return None


def _weights(trainer: Trainer) -> Iterator[tuple[str, Any]]:
    """Yield the declared name and the tensor of each parameter of this rank's stage."""
    modules = trainer.network.local_modules()
    for parameter in declare(trainer.stage.model, trainer.vocabulary_rows):
        held = [layer for layer in (parameter.layer, *parameter.tied_layers) if layer in modules]
        if held:
            yield parameter.name, modules[held[0]].get_parameter(parameter.local_name)


def _tensors(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, torch.Tensor]]:
    """Yield every tensor in nested dictionaries, lists and tuples, with its path."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _tensors(each, (*path, key))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _tensors(each, (*path, number))


def _described(name: str, state: Any, path: Keys, tensor: torch.Tensor, parameters: Sequence[Parameter]) -> str:
    """Describe a tensor of a file by its declared parameter. If it belongs to no parameter, give its path."""
    # DeepSpeed's optimizer state does not tell the layer of a tied parameter, so `declared_key` returns the layer None.
    names: dict[tuple[int | None, str], str] = {}
    for parameter in parameters:
        for layer in (parameter.layer, *parameter.tied_layers, *([None] if parameter.tied_layers else [])):
            names[layer, parameter.local_name] = parameter.name
    layer_file = _LAYER_FILE.fullmatch(name)
    if layer_file and len(path) == 1 and (found := names.get((int(layer_file[1]), str(path[0])))):
        return f"weight {found}"
    place = _optimizer_place(path)
    if place is not None:
        kind, group = place
        element = int((~torch.isfinite(tensor.detach().flatten())).nonzero()[0])
        for given, each in state["optimizer_state_dict"][_SLICES][group].items():
            if each.start <= element < each.start + each.numel:
                return _kind(kind, names.get(declared_key(given), given))
    return f"tensor {'/'.join(map(str, path)) or 'without a name'} of the file {name}"


def _optimizer_place(path: Keys) -> tuple[str, int] | None:
    """Return (kind of state, parameter group) of a flat tensor in ZeRO's optimizer state, or None for other tensors."""
    match path:
        case ("optimizer_state_dict", key, int(group)) if key == _MASTERS:
            return MASTER, group
        case ("optimizer_state_dict", key, "state", int(group), str(kind)) if key == _BASE:
            return kind, group
    return None


def _kind(kind: str, parameter: str) -> str:
    """Name a parameter's state in a message."""
    return f"the {'fp32 master weight' if kind == MASTER else kind} of {parameter}"
