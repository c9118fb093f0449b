"""Detect replicas that drifted. All copies of a parameter must be bit-equal on all ranks that hold a copy.

Every data-parallel replica holds a copy of each parameter. The tensor-parallel ranks of a stage each hold a copy of
parameters that are not split, and two stages may hold copies of a tied parameter. The placement table states which
ranks hold copies. Ranks exchange one 64-bit fingerprint per parameter instead of the weights.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from bloomery.base.errors import CheckFailedError
from bloomery.spec.layout import coordinates_of
from bloomery.spec.parameters import declare
from bloomery.spec.placement import Parameter, Placement
from training.loop.build_engine import Trainer

_CHUNK = {"cpu": 1 << 15, "cuda": 1 << 24}
"""Number of elements to process at a time. As 64-bit integers, these elements take 256 KiB of a core's cache or 128 MiB
of GPU memory."""
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
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


def check_replicas(trainer: Trainer, random_states: dict[str, torch.Tensor], iteration: int) -> None:
    """Compare all replicas of weights, fp32 optimizer state and random number states over all ranks. Collective.

    Args:
        trainer: trainer with the network and the optimizer.
        random_states: states of the random number generators by name. They must be equal on every rank.
        iteration: iteration to name in the error.

    Raises:
        CheckFailedError: replicas differ. Every rank raises the same error, which names tensors and ranks.
    """
    mesh = trainer.mesh
    everybody = tuple(range(mesh.parallel.world_size))
    copied = [each for p in declare(trainer.stage.model, trainer.vocabulary_rows) for each in _parameter(trainer, p)]
    for name in sorted(random_states):
        state = random_states[name].to(mesh.device)
        copied.append(_Copied(f"the random number state ({name})", [state], [everybody]))
    own = torch.zeros(len(copied), dtype=torch.int64, device=mesh.device)
    for number, each in enumerate(copied):
        for part in each.own:
            own[number] = own[number] * _GOLDEN + fingerprint(part)
    said = [torch.empty_like(own) for _ in everybody]
    dist.all_gather(said, own)
    by_rank = torch.stack(said).tolist()
    found = [
        text
        for number, each in enumerate(copied)
        for ranks in each.groups
        if (text := _difference(each.name, {rank: by_rank[rank][number] for rank in ranks}))
    ]
    if found:
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise CheckFailedError(
            f"replicas differ: {'; '.join(found[:_NAMED])}{more}",
            where=f"iteration {iteration}",
            expected="bit-equal replicas; check the devices and network links of these ranks for faults, move away the "
            "checkpoints that were saved after the last comparison that found no difference (comparisons are "
            "training.guards.replicas_every_iterations iterations apart), and run the same command again",
        )


def _difference(name: str, seen: dict[int, int]) -> str | None:
    """Describe which ranks differ from the most common fingerprint. Return None if all fingerprints are equal."""
    usual, count = Counter(seen.values()).most_common(1)[0]
    if count == len(seen):
        return None
    others = [rank for rank, value in seen.items() if value != usual]
    most = [rank for rank, value in seen.items() if value == usual]
    return f"{name} on rank {_ranks(others)} differs from that on rank {_ranks(most)}"


def _ranks(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
