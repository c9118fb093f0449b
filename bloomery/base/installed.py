"""Detection of optional GPU packages by their files and metadata. Importing one would import torch and take seconds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
from enum import StrEnum
from pathlib import Path


class Apex(StrEnum):
    """What is installed under the name `apex`."""

    ABSENT = "absent"
    OTHER = "other"
    """Another project of that name, from the package index."""
    SOURCE = "source"
    """NVIDIA's apex, built without CUDA kernels."""
    REAL = "real"
    """NVIDIA's apex, with the kernels of FusedLayerNorm and FusedAdam."""


def apex() -> Apex:
    """Return which `apex` Python would import."""
    spec = importlib.util.find_spec("apex")
    if spec is None:
        return Apex.ABSENT
    folders = apex_folders()
    sources = [folder / "normalization" / "fused_layer_norm.py" for folder in folders]
    if not any(source.is_file() and "class FusedLayerNorm" in source.read_text("utf-8") for source in sources):
        return Apex.OTHER
    return Apex.REAL if has("fused_layer_norm_cuda") and has("amp_C") else Apex.SOURCE


def apex_folders() -> list[Path]:
    """Return the folders of the installed `apex`. The list is empty if apex is absent or is a single file."""
    spec = importlib.util.find_spec("apex")
    return [Path(place) for place in (spec.submodule_search_locations if spec else None) or []]


def has(module: str) -> bool:
    """Return whether a top-level module can be found. The module is not imported."""
    return importlib.util.find_spec(module) is not None


def compiles_for_gpu() -> bool:
    """Return whether torch can compile for a GPU. It needs Triton and a C compiler, which Triton uses for each
    kernel."""
    return has("triton") and any((os.environ.get("CC"), shutil.which("gcc"), shutil.which("clang")))


def version(distribution: str) -> tuple[int, ...] | None:
    """Return the leading numbers of an installed distribution's version, such as (2, 8, 3). Return None if it is not
    installed."""
    try:
        text = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
