"""Describe this machine: processors, memory and GPUs, without loading a deep-learning library."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_QUERY = "nvidia-smi --query-gpu=name,memory.total,compute_cap --format=csv,noheader,nounits"
_BF16_CAPABILITY = 8.0
"""Smallest compute capability of the NVIDIA GPUs that multiply bf16 matrices."""


@dataclass(frozen=True)
class Machine:
    """The machine that the training will use."""

    cores: int
    """Number of processors that this process may use."""
    memory_bytes: int
    gpus: int = 0
    """Number of GPUs. If it is 0, the training runs on the processors."""
    gpu_name: str = ""
    gpu_memory_bytes: int = 0
    """Memory of one GPU, in bytes."""
    has_bf16: bool = False
    """Whether the device has instructions for bf16 matrix products."""

    @property
    def precision(self) -> str:
        """Value of `training.precision` that is fast on this machine."""
        if self.has_bf16:
            return "bf16"
        return "fp16" if self.gpus else "fp32"

    def __str__(self) -> str:
        from bloomery.base.units import format_bytes

        if self.gpus:
            return f"{self.gpus} x {self.gpu_name} with {format_bytes(self.gpu_memory_bytes)} each"
        return f"{self.cores} processors, {format_bytes(self.memory_bytes)} of memory, no GPU"


def this_machine() -> Machine:
    """Return the processors, the memory and the GPUs of this machine."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    rows = _gpu_rows()
    if rows:
        name, megabytes, capability = rows[0]
        bf16 = float(capability) >= _BF16_CAPABILITY
        return Machine(cores, memory, len(rows), name, int(float(megabytes)) << 20, bf16)
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    return Machine(cores, memory, has_bf16="amx_bf16" in flags or "avx512_bf16" in flags)


def _gpu_rows() -> list[tuple[str, str, str]]:
    """Return (name, memory in MiB, compute capability) of each NVIDIA GPU. Without such a GPU, return []."""
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        done = subprocess.run(_QUERY.split(), capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return []
    return parse_gpus(done.stdout) if done.returncode == 0 else []


def parse_gpus(text: str) -> list[tuple[str, str, str]]:
    """Return (name, memory in MiB, compute capability) for each line that `nvidia-smi` printed."""
    rows = [tuple(cell.strip() for cell in line.split(",")) for line in text.splitlines() if line.count(",") == 2]
    return [(row[0], row[1], row[2]) for row in rows]


def guess_flops(machine: Machine) -> float:
    """Return a first guess of the operations per second of a training on this machine. The probe corrects the guess.

    The guess is 100 TFLOP/s for each GPU. Without a GPU, it is a third of the measured speed of fp32 matrix products.
    """
    if machine.gpus:
        return 1e14 * machine.gpus
    import numpy as np

    size = 768
    one = np.ones((size, size), dtype=np.float32)
    one @ one
    started = time.perf_counter()
    for _ in range(3):
        one @ one
    return 3 * 2 * size**3 / (time.perf_counter() - started) / 3
