"""Read the tables of GPUs and electricity grids (`bloomery/spec/data`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU."""

    memory_gib: float
    peak_tflops: float
    """Peak of dense 16-bit matrix products, TFLOP/s."""
    fp32_tflops: float
    """Peak of fp32 matrix products without TF32, TFLOP/s."""
    watts: float
    """Thermal design power, W."""
    node_gb_per_second: float
    """Bandwidth of the GPU to the other GPUs of its node, one direction, GB/s."""
    network_gb_per_second: float
    """The GPU's share of its node's network bandwidth to other nodes, one direction, GB/s."""
    source: str
    bf16: bool = True
    """Whether the GPU supports bfloat16 matrix products."""

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes."""
        return int(self.memory_gib * 2**30)


@dataclass(frozen=True)
class Grid:
    """Electricity grid of one place."""

    grams_per_kwh: float
    """Emissions in grams of CO2-equivalent per kWh."""
    source: str


@cache
def gpus() -> dict[str, Gpu]:
    """Return the known GPUs by name."""
    return {name: Gpu(**row) for name, row in _table("gpus.toml").items()}


@cache
def grids() -> dict[str, Grid]:
    """Return the known grids by name."""
    return {name: Grid(**row) for name, row in _table("grids.toml").items()}


def _table(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("bloomery.spec.data").joinpath(name).read_text(encoding="utf-8"))
