"""Detect replicas that drifted. All copies of a state must be bit-equal on all ranks that hold a copy.

Every data-parallel replica holds a copy of each parameter. The tensor-parallel ranks of a stage each hold a copy of
parameters that are not split, and two stages may hold copies of a tied parameter. The placement table states which
ranks hold copies. Each rank also holds the states of the random number generators, the step count and the loss scale.
Ranks exchange one 64-bit fingerprint per state instead of the state.

ZeRO-1 keeps only one copy of the fp32 state of a split parameter. But the weights of each parameter must be its rounded
master weights, so each rank also compares these two.
"""

from __future__ import annotations

import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from bloomery.checkpoint.drift import DriftError
from bloomery.spec.layout import coordinates_of
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter, Placement
from training.loop.build_engine import Trainer

_CHUNK = {"cpu": 1 << 15, "cuda": 1 << 24}
"""Number of elements to process at a time. As 64-bit integers, these elements take 256 KiB of a core's cache or 128 MiB
of GPU memory."""
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SCALE_KEYS = ("cur_scale", "cur_iter", "last_overflow_iter", "cur_hysteresis")
"""State of a dynamic loss scale. A static loss scale has only the first one."""
_NAMED = 4
"""Maximum number of tensors that an error message names."""


def fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    """Return a 64-bit fingerprint of a tensor's bytes, as an int64 scalar on the tensor's device.

    The fingerprint is the sum of word x odd weight modulo 2^64. An odd weight has an inverse, so a change of one word
    always changes the sum. Any other change is missed with a probability of 2^-63.
    """
    if not tensor.numel():
        return torch.zeros((), dtype=torch.int64, device=tensor.device)
    words = tensor.detach().contiguous().view(-1).view(_WORD[tensor.element_size()])
    length = min(_CHUNK[words.device.type], words.numel())
    weights = torch.arange(length, dtype=torch.int64, device=words.device).mul_(_GOLDEN).bitwise_or_(1)
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for first in range(0, words.numel(), length):
        part = words[first : first + length]
        total = total * _GOLDEN + (part.long() * weights[: part.numel()]).sum()
    return total


@dataclass(frozen=True)
class _Copied:
    """A state of which several ranks hold copies, such as the weights of a parameter."""

    name: str
    own: list[torch.Tensor]
    """This rank's tensors of the state. Empty if this rank holds no copy."""
    groups: list[tuple[int, ...]]
    """Groups of ranks. All ranks of a group must hold the same bits."""


@dataclass(frozen=True)
class _Rounded:
    """A parameter's weights and master weights on this rank. The weights must be the rounded master weights."""

    name: str
    pairs: list[tuple[torch.Tensor, torch.Tensor]]
    """Weights and fp32 master weights of the same elements, flat. Empty if this rank has no such master weights."""


def _parameter(trainer: Trainer, parameter: Parameter) -> Iterator[_Copied]:
    """Yield a parameter's weights and, if the parameter is not split, its fp32 optimizer state.

    An update overwrites the weights from the fp32 optimizer state, so a lasting drift must be in that state. ZeRO-1
    divides the state over the replicas, at the same places on all tensor-parallel ranks of a stage. So the state is
    compared between the tensor-parallel ranks of one stage and replica.
    """
    parallel, bounds = trainer.mesh.parallel, trainer.network.parts
    layers = (parameter.layer, *parameter.tied_layers)
    stages = {s for s in range(parallel.pipeline) if any(bounds[s] <= layer < bounds[s + 1] for layer in layers)}
    replicated = parameter.placement is Placement.REPLICATED
    weights: dict[int, list[int]] = defaultdict(list)
    states: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank in range(parallel.world_size):
        place = coordinates_of(parallel, rank)
        if place.pipeline in stages:
            weights[0 if replicated else place.tensor].append(rank)
            states[place.pipeline, place.data].append(rank)
    modules = trainer.network.local_modules()
    owner = next((layer for layer in layers if layer in modules), None)
    held = [] if owner is None else [modules[owner].get_parameter(parameter.local_name)]
    yield _Copied(parameter.name, [value.detach() for value in held], [tuple(ranks) for ranks in weights.values()])
    if replicated:
        fragments = [each for value in held for each in _fp32_state(value)]
        yield _Copied(f"the fp32 state of {parameter.name}", fragments, [tuple(ranks) for ranks in states.values()])


def _fp32_state(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield this rank's part of a parameter's master weights and moments, if this rank holds a part."""
    mapping: Any = getattr(weight, "_hp_mapping", None)
    if mapping is not None:
        yield mapping.hp_fragment
        moments = mapping.optim_fragment or {}
        yield from (moments[key] for key in sorted(moments))


def _rounded(trainer: Trainer, parameter: Parameter) -> _Rounded:
    """Return a parameter's weights and master weights on this rank.

    The master weights of a tied parameter's copy in another stage are unused, so they are not compared.
    """
    modules, pairs = trainer.network.local_modules(), []
    if parameter.layer in modules:
        weight = modules[parameter.layer].get_parameter(parameter.local_name)
        mapping: Any = getattr(weight, "_hp_mapping", None)
        if mapping is not None:
            here = mapping.lp_fragment_address
            pairs = [(weight.detach().view(-1).narrow(0, here.start, here.numel), mapping.hp_fragment.view(-1))]
    return _Rounded(parameter.name, pairs)


def _differing(weights: torch.Tensor, master: torch.Tensor) -> torch.Tensor:
    """Return the number of weights that do not equal their rounded master weights, as an int64 scalar.

    Both tensors are flat and have the same length. NaN equals NaN here, because another guard judges such values.
    """
    total = torch.zeros((), dtype=torch.int64, device=weights.device)
    length = _CHUNK[weights.device.type]
    for first in range(0, weights.numel(), length):
        part = weights[first : first + length]
        rounded = master[first : first + length].to(weights.dtype)
        total += ((part != rounded) & ~(part.isnan() & rounded.isnan())).sum()
    return total


def _counters(trainer: Trainer) -> torch.Tensor:
    """Return the counters on which the next update depends, as float64.

    These are the engine's steps, the least and greatest step count of the optimizer, and the state of the loss scale.

    Every rank must have the same values.
    """
    engine = trainer.engine
    base = engine.optimizer.optimizer
    steps = [float(group["step"]) for group in base.param_groups if "step" in group]
    steps += [float(state["step"]) for state in base.state.values() if "step" in state]
    scaler = getattr(engine.optimizer, "loss_scaler", None)
    scale = [float(getattr(scaler, key, 0.0)) for key in _SCALE_KEYS]
    return torch.tensor([engine.global_steps, min(steps, default=0.0), max(steps, default=0.0), *scale]).double()


def check_replicas(trainer: Trainer, random_states: dict[str, torch.Tensor], iteration: int) -> None:
    """Compare all replicas of weights, fp32 optimizer state, counters and random number states. Collective.

    Also compare the weights on each rank with their fp32 master weights.

    Args:
        trainer: trainer with the network and the optimizer.
        random_states: states of the random number generators by name. They must be equal on every rank.
        iteration: iteration to name in the error.

    Raises:
        DriftError: replicas differ. Every rank raises the same error, which names tensors and ranks. Its `nodes` are
            those of the ranks whose copies may be wrong.
    """
    mesh = trainer.mesh
    everybody = tuple(range(mesh.parallel.world_size))
    declared = declare(trainer.stage.model, trainer.vocabulary_rows)
    copied = [each for parameter in declared for each in _parameter(trainer, parameter)]
    for name in sorted(random_states):
        state = random_states[name].to(mesh.device)
        copied.append(_Copied(f"the random number state ({name})", [state], [everybody]))
    copied.append(_Copied("the step count or the loss scale", [_counters(trainer).to(mesh.device)], [everybody]))
    rounded = [_rounded(trainer, parameter) for parameter in declared]
    own = torch.zeros(len(copied) + len(rounded), dtype=torch.int64, device=mesh.device)
    for number, each in enumerate(copied):
        for part in each.own:
            own[number] = own[number] * _GOLDEN + fingerprint(part)
    for number, pair in enumerate(rounded, start=len(copied)):
        for weights, master in pair.pairs:
            own[number] += _differing(weights, master)
    said = [torch.empty_like(own) for _ in everybody]
    dist.all_gather(said, own)
    by_rank = torch.stack(said).tolist()
    found, suspects = [], set[int]()
    for number, each in enumerate(copied):
        for ranks in each.groups:
            if difference := _difference(each.name, {rank: by_rank[rank][number] for rank in ranks}):
                found.append(difference[0])
                suspects.update(difference[1])
    for number, pair in enumerate(rounded, start=len(copied)):
        if wrong := [rank for rank in everybody if by_rank[rank][number]]:
            found.append(f"the weights of {pair.name} on rank {_ranks(wrong)} differ from their fp32 master weights")
            suspects.update(wrong)
    if found:
        raise _drift(found, sorted(suspects), iteration)


def _drift(found: list[str], suspects: list[int], iteration: int) -> DriftError:
    """Return the error for differences, with the nodes of the ranks whose copies may be wrong. Collective."""
    names: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(names, node_name())
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return DriftError(
        f"replicas differ: {'; '.join(found[:_NAMED])}{more}",
        where=f"iteration {iteration}",
        expected="bit-equal replicas; if the same node is named again, check its devices, memory and network links, "
        "and exclude the node from the job",
        nodes={rank: names[rank] for rank in suspects},
    )


def nodes_text(nodes: Mapping[int, str]) -> str:
    """Describe the nodes of ranks, for a message, such as "rank 0, 1 on node a, rank 5 on node c"."""
    places: dict[str, list[int]] = defaultdict(list)
    for rank, node in nodes.items():
        places[node].append(rank)
    listed = [f"rank {_ranks(ranks)} on node {node}" for node, ranks in list(places.items())[:_NAMED]]
    return ", ".join(listed) + (f" and ranks on {len(places) - _NAMED} more nodes" if len(places) > _NAMED else "")


def node_name() -> str:
    """Return the name of this process's node: SLURM's name in a SLURM job, otherwise the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _difference(name: str, seen: dict[int, int]) -> tuple[str, list[int]] | None:
    """Return a description of the ranks that differ from the most common fingerprint, and the ranks that may be wrong.

    Return None if all fingerprints are equal. If the most common fingerprint has no majority, every rank may be wrong.
    """
    usual, count = Counter(seen.values()).most_common(1)[0]
    if count == len(seen):
        return None
    others = [rank for rank, value in seen.items() if value != usual]
    most = [rank for rank, value in seen.items() if value == usual]
    suspects = others if len(most) > len(others) else sorted(seen)
    return f"{name} on rank {_ranks(others)} differs from that on rank {_ranks(most)}", suspects


def _ranks(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
