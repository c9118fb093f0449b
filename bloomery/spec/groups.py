"""Define the optimizer's parameter groups and the order of parameters in a pipeline stage's flat optimizer state.

ZeRO stage 1 concatenates the parameters of a group. Training builds the optimizer from these functions, and the
checkpoint reader uses them to find each parameter.
"""

from __future__ import annotations

from collections.abc import Iterable

from bloomery.spec.placement import Parameter


def held(parameters: Iterable[Parameter], first: int, end: int) -> list[Parameter]:
    """Return the parameters of pipeline layers [first, end), in order of declaration.

    Parameters that these layers own and copies of tied parameters are both included.
    """
    return [each for each in parameters if any(first <= layer < end for layer in (each.layer, *each.tied_layers))]


def optimizer_groups(parameters: Iterable[Parameter]) -> list[list[Parameter]]:
    """Return the group with weight decay, then the group without, each in order of declaration. Empty groups are left
    out."""
    groups: dict[bool, list[Parameter]] = {True: [], False: []}
    for parameter in parameters:
        groups[parameter.decays].append(parameter)
    return [group for group in groups.values() if group]


def engine_name(parameter: Parameter) -> str:
    """Return the name of a parameter in DeepSpeed's engine, which also names it in the files of a checkpoint."""
    if parameter.tied_layers:
        return f"tied_modules.embed.{parameter.local_name}"
    return f"{parameter.layer}.{parameter.local_name}"
