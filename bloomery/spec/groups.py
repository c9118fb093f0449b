"""Groups of the optimizer: which parameters a pipeline stage holds, and in which order its flat state has them.

The optimizer is built by it and a checkpoint is read by it: ZeRO stage 1 lays the parameters of a group end to end.
"""

from __future__ import annotations

from collections.abc import Iterable

from bloomery.spec.placement import Parameter


def held(parameters: Iterable[Parameter], first: int, end: int) -> list[Parameter]:
    """Parameters of the pipeline layers [first, end), as their owner or as a tied copy, in order of declaration."""
    return [each for each in parameters if any(first <= layer < end for layer in (each.layer, *each.tied_layers))]


def optimizer_groups(parameters: Iterable[Parameter]) -> list[list[Parameter]]:
    """Those that decay, then those that do not, each in order of declaration; no group is empty."""
    groups: dict[bool, list[Parameter]] = {True: [], False: []}
    for parameter in parameters:
        groups[parameter.decays].append(parameter)
    return [group for group in groups.values() if group]
