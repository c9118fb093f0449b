"""Check that a class of transformers computes the trained network exactly, so that the run can end with an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.section import Contradiction
from bloomery.spec.transformers_families.choose import exact_family, keys_of, nearest

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def export_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find a network that cannot be exported, although `export.enabled` is true.

    The families `bert` and `t5` can only be planned, so they are not checked.
    """
    if not config.export.enabled or config.model.family != "gpt" or exact_family(config.model) is not None:
        return []
    family, wanted = nearest(config.model)
    has = {key: getattr(config.model, key) for key in wanted}
    keys = tuple(f"model.{key}" for key in wanted)
    return [
        Contradiction(
            f"no class of transformers computes this network exactly ({keys_of(has)}), so the run could not export its "
            "model",
            (*keys, "export.enabled"),
            next(iter(has.values())),
            f"{keys_of(wanted)}, which {family.architecture} computes; or export.enabled false, so that the run "
            "ends after its training",
        )
    ]
