"""Choose the transformers family that computes a network exactly, or name the keys that must change for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import ConfigError
from bloomery.config.explain_value import shown
from bloomery.spec.transformers_families.bloom import BLOOM
from bloomery.spec.transformers_families.family import Family
from bloomery.spec.transformers_families.gpt2 import GPT2
from bloomery.spec.transformers_families.gpt_neox import GPT_NEOX

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig

FAMILIES: tuple[Family, ...] = (BLOOM, GPT2, GPT_NEOX)


def exact_family(model: ModelConfig) -> Family | None:
    """Return the family that computes the network exactly. None if no family does."""
    return next((family for family in FAMILIES if not family.lacks(model)), None)


def nearest(model: ModelConfig) -> tuple[Family, dict[str, object]]:
    """Return the family for which the fewest keys of the section `model` must change, and these keys with right values.

    If several families need equally many changes, one that keeps the network's positions is returned.
    """
    lacking = [(family, family.lacks(model)) for family in FAMILIES]
    return min(lacking, key=lambda each: (len(each[1]), "positions" in each[1]))


def keys_of(wanted: dict[str, object]) -> str:
    """Return keys of the section `model` with their values, for a message."""
    return ", ".join(f"model.{key} {shown(value)}" for key, value in wanted.items())


def family_for_export(model: ModelConfig) -> Family:
    """Return the family of an export.

    Raises:
        ConfigError: no family computes the network exactly.
    """
    family = exact_family(model)
    if family is None:
        near, wanted = nearest(model)
        has = {key: getattr(model, key) for key in wanted}
        raise ConfigError(
            f"no class of transformers computes this network exactly: {keys_of(has)}",
            where="the run's configuration",
            expected=f"{keys_of(wanted)}, which {near.architecture} computes; or the key export.enabled false, so "
            "that the run ends after its training",
        )
    return family
