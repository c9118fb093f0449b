"""Replicas that drifted: every copy of a parameter must be bit-equal, whoever holds it.

Copies are held by the tensor-parallel ranks (what is not split), by all data-parallel ranks, and by the stages that
share a tied parameter. The placement table says which; ranks exchange one 64-bit fingerprint a parameter, not the
weights.
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
"""Elements at a time, as 64-bit integers: 256 KiB of a core's cache; 128 MiB of a GPU's memory."""
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_NAMED = 4
"""Tensors that a message names."""


def fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    """64 bits of a tensor's bytes, int64 scalar on its device.

    The sum of word x odd weight modulo 2^64: an odd weight has an inverse, so that one changed word (of at most 32
    bits) always changes the sum; for others the odds are 2^-63.
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
    """Something of which ranks hold copies."""

    name: str
    own: list[torch.Tensor]
    """What this rank holds of it."""
    groups: list[tuple[int, ...]]
    """Ranks that must hold the same."""


def _parameter(trainer: Trainer, parameter: Parameter) -> Iterator[_Copied]:
    """The weights as the network uses them, and what they are made of at each update.

    An update overwrites the weights from the fp32 state of the optimizer, so a drift that lasts is one of that state.
    Replicas divide it (ZeRO-1), at the same places on all tensor-parallel ranks of a stage.
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
    """This rank's part of a parameter's master weights and moments; nothing where other replicas hold it."""
    mapping: Any = getattr(weight, "_hp_mapping", None)
    if mapping is not None:
        yield mapping.hp_fragment
        moments = mapping.optim_fragment or {}
        yield from (moments[key] for key in sorted(moments))


def check_replicas(trainer: Trainer, random_states: dict[str, torch.Tensor], iteration: int) -> None:
    """Compare all replicas of the weights, and the states of random numbers, over all ranks. Collective.

    Args:
        trainer: its network holds the weights.
        random_states: generators' states by name; the same names and states on every rank.
        iteration: for the message.

    Raises:
        CheckFailedError: on every rank alike; names tensors and ranks.
    """
    mesh = trainer.mesh
    everybody = tuple(range(mesh.parallel.world_size))
    copied = [each for p in declare(trainer.stage.model, trainer.vocabulary_rows) for each in _parameter(trainer, p)]
    for name in sorted(random_states):
        state = random_states[name].to(mesh.device)
        copied.append(_Copied(f"the state of random numbers ({name})", [state], [everybody]))
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
            f"replicas drifted: {'; '.join(found[:_NAMED])}{more}",
            where=f"iteration {iteration}",
            expected="bit-equal replicas: the checkpoints from before the drift are good, and a device or a link of "
            "those ranks may not be",
        )


def _difference(name: str, seen: dict[int, int]) -> str | None:
    """Which ranks differ from most of the others; None where all are the same."""
    usual, count = Counter(seen.values()).most_common(1)[0]
    if count == len(seen):
        return None
    others = [rank for rank, value in seen.items() if value != usual]
    most = [rank for rank, value in seen.items() if value == usual]
    return f"{name} of rank {_ranks(others)} is not that of rank {_ranks(most)}"


def _ranks(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
