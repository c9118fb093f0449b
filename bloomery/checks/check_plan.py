"""Check `plan`: its GPU and grid must be known, the keys in `assumed` must exist, and the disk must be large enough."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes
from bloomery.checks.check_batch import has_countable_steps
from bloomery.config.keys import all_keys
from bloomery.config.section import Contradiction
from bloomery.spec.hardware import gpus, grids

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def plan_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find unknown hardware, keys in `plan.assumed` that do not exist, and a disk that is too small for the run."""
    plan = config.plan
    problems = []
    for key, name, table in (("plan.gpu", plan.gpu, gpus), ("plan.grid", plan.grid, grids)):
        if name is not None and name not in table():
            near = difflib.get_close_matches(name, table(), n=1, cutoff=0.4)
            message = f"{key}: unknown name {name!r}{f' (did you mean {near[0]!r}?)' if near else ''}"
            problems.append(Contradiction(message, (key,), name, f"one of {', '.join(table())}"))
    known = set(all_keys(type(config)))
    for path in plan.assumed:
        if path not in known:
            message = f"plan.assumed: {path!r} is not a key of the configuration"
            right = "a key with its sections, such as training.skip"
            problems.append(Contradiction(message, ("plan.assumed",), path, right))
    if plan.disk is not None and has_countable_steps(config.model, config.training):
        problems += _small_disk(config, plan.disk)
    return problems


def _small_disk(config: RunConfig, free: int) -> list[Contradiction]:
    """Find a disk that is too small for the run."""
    # Import this module only if `plan.disk` is set, so that other workflows start faster.
    from bloomery.contracts.disk_use import disk_use

    use = disk_use(config)
    if use.total <= free:
        return []
    message = (
        f"plan.disk {format_bytes(free)} is too small: the run needs up to {format_bytes(use.total)}, "
        f"of which {format_bytes(use.checkpoints)} are for checkpoints"
    )
    right = f"at least {format_bytes(use.total)}, or fewer checkpoints to keep (training.checkpoint.keep_last)"
    return [Contradiction(message, ("plan.disk", "training", "model", "tokenizer", "export"), free, right)]
