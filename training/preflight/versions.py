"""Versions of the software on a node, which must be equal on all nodes."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

import bloomery
from bloomery.base.source_commit import source_commit


def node_versions() -> dict[str, str]:
    """Return the versions of Python, torch, DeepSpeed, CUDA, NCCL and Bloomery, without those that are absent.

    DeepSpeed is not imported, because its import takes seconds.
    """
    found: dict[str, str | None] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "deepspeed": _installed("deepspeed"),
        "cuda": torch.version.cuda,
        "nccl": _nccl(),
        "bloomery": bloomery.__version__,
        "commit": source_commit(),
    }
    return {name: value for name, value in found.items() if value is not None}


def _installed(package: str) -> str | None:
    """Return the version of an installed package, or None if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _nccl() -> str | None:
    """Return the version of NCCL, or None if torch has no NCCL."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return None
    return ".".join(str(part) for part in torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
