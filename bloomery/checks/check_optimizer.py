"""Check that the keys of the optimizer's variant fit its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.lamb import LambConfig
from bloomery.config.section import Contradiction

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig


def lamb_contradictions(optimizer: OptimizerConfig) -> list[Contradiction]:
    """Find keys of `training.optimizer.lamb` that the configured optimizer does not use."""
    lamb, section, kind = optimizer.lamb, "training.optimizer.lamb", "training.optimizer.kind"
    if optimizer.kind != "lamb":
        if lamb == LambConfig():
            return []
        message = f"{section} applies only to {kind} 'lamb', but the kind is {optimizer.kind!r}"
        return [Contradiction(message, (section, kind), None, f"no section {section}, or {kind} 'lamb'")]
    uses = {"use_nvlamb": ("apex", lamb.use_nvlamb), "alpha": ("embedding_gain", lamb.alpha is not None)}
    return [
        Contradiction(
            f"{section}.{name} applies only to the dialect {dialect!r}, but the dialect is {lamb.dialect!r}",
            (f"{section}.{name}", f"{section}.dialect"),
            getattr(lamb, name),
            f"no key {section}.{name}, or the dialect {dialect!r}",
        )
        for name, (dialect, stated) in uses.items()
        if stated and lamb.dialect != dialect
    ]
