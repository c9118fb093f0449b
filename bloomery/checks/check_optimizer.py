"""Check that the keys of the optimizer fit its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.config.lamb import LambConfig
from bloomery.config.section import Contradiction

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig


def kind_contradictions(optimizer: OptimizerConfig) -> list[Contradiction]:
    """Find keys that the configured kind of optimizer, or its variant, does not use."""
    return [*_momentum_problems(optimizer), *_lamb_problems(optimizer)]


def _lamb_problems(optimizer: OptimizerConfig) -> list[Contradiction]:
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


def _momentum_problems(optimizer: OptimizerConfig) -> list[Contradiction]:
    if optimizer.kind == "sgd" or not optimizer.momentum:
        return []
    message = (
        f"training: optimizer.momentum {optimizer.momentum} applies only to optimizer.kind 'sgd', but the kind is "
        f"{optimizer.kind!r}, which uses beta1 instead"
    )
    keys = ("training.optimizer.momentum", "training.optimizer.kind")
    return [Contradiction(message, keys, optimizer.momentum, "no momentum key, or optimizer.kind 'sgd'")]
