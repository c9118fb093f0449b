"""Optional GPU packages, found by their files and metadata: importing one would import torch and take seconds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
from enum import StrEnum
from pathlib import Path


class Apex(StrEnum):
    """What goes by the name `apex`."""

    ABSENT = "absent"
    OTHER = "other"
    """The package index has another project of that name."""
    SOURCE = "source"
    """NVIDIA's, built without CUDA kernels."""
    REAL = "real"
    """NVIDIA's, with the kernels of FusedLayerNorm and FusedAdam."""


def apex() -> Apex:
    """Which `apex` Python would import."""
    spec = importlib.util.find_spec("apex")
    if spec is None:
        return Apex.ABSENT
    folders = apex_folders()
    sources = [folder / "normalization" / "fused_layer_norm.py" for folder in folders]
    if not any(source.is_file() and "class FusedLayerNorm" in source.read_text("utf-8") for source in sources):
        return Apex.OTHER
    return Apex.REAL if has("fused_layer_norm_cuda") and has("amp_C") else Apex.SOURCE


def apex_folders() -> list[Path]:
    """Where it lies; empty when there is none, or it is one file."""
    spec = importlib.util.find_spec("apex")
    return [Path(place) for place in (spec.submodule_search_locations if spec else None) or []]


def has(module: str) -> bool:
    """Whether a top-level module can be imported, as far as its files say."""
    return importlib.util.find_spec(module) is not None


def compiles_for_gpu() -> bool:
    """Whether torch can compile for a GPU: with Triton, which builds a part of each kernel with a C compiler."""
    return has("triton") and any((os.environ.get("CC"), shutil.which("gcc"), shutil.which("clang")))


def version(distribution: str) -> tuple[int, ...] | None:
    """Leading numbers of an installed distribution's version, such as (2, 8, 3); None: not installed."""
    try:
        text = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
