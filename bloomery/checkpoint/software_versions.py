"""Versions of the software that saves a checkpoint, and how they differ from those of an earlier checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from bloomery.base.source_commit import source_commit

_NOT_RECORDED = "not recorded"


def software_versions() -> dict[str, str]:
    """Return the versions of Bloomery, torch and DeepSpeed, and Bloomery's git commit if it is known."""
    versions = {
        "bloomery": version("bloomery"),
        # The modules themselves would take seconds to import.
        "torch": version("torch"),
        "deepspeed": version("deepspeed"),
    }
    commit = source_commit()
    return versions if commit is None else versions | {"commit": commit}


def changed_versions(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return one phrase for each version that differs, such as `torch 2.12.0 -> 2.13.0`.

    A version that only one of the two mappings contains differs too.
    """
    return [
        f"{name} {before.get(name, _NOT_RECORDED)} -> {after.get(name, _NOT_RECORDED)}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
