"""Read the state of a node's GPUs from NVML, NVIDIA's management library."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from bloomery.contracts.preflight import GpuState

Value = TypeVar("Value")
_FAULTY_REASONS = {
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "temperature (hardware)",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "temperature (software)",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}
"""Constant of NVML -> why a GPU reduced its clock. An idle GPU and the power limit are not faults."""


def gpu_states() -> tuple[tuple[GpuState, ...], str | None]:
    """Return the state of all GPUs of this node, and the version of the driver.

    Both are empty or None without NVML (the package nvidia-ml-py, or NVIDIA's driver).
    """
    try:
        import pynvml
    except ImportError:
        return (), None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), None
    try:
        count = _value(pynvml, pynvml.nvmlDeviceGetCount) or 0
        driver = _value(pynvml, pynvml.nvmlSystemGetDriverVersion)
        return tuple(_state(pynvml, index) for index in range(count)), driver
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _value(nvml: Any, read: Callable[..., Value], *arguments: Any) -> Value | None:
    """Return what NVML reports, or None if this GPU or driver does not report it."""
    try:
        return read(*arguments)
    except nvml.NVMLError:
        return None


def _state(nvml: Any, index: int) -> GpuState:
    """Return the state of GPU `index`."""
    handle = _value(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        # A GPU that has fallen off the bus is counted, but NVML cannot open it.
        return GpuState(index=index, name="a GPU that NVML cannot open")
    memory = _value(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    errors = _value(
        nvml,
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    remapped = _value(nvml, nvml.nvmlDeviceGetRemappedRows, handle)
    reasons = _value(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return GpuState(
        index=index,
        name=_value(nvml, nvml.nvmlDeviceGetName, handle) or "unknown",
        memory_bytes=None if memory is None else memory.total,
        uncorrected_errors=errors,
        remapping_failed=None if remapped is None else bool(remapped[3]),
        clock_mhz=_value(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        max_clock_mhz=_value(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        throttled_by=tuple(said for name, said in _FAULTY_REASONS.items() if reasons & getattr(nvml, name)),
    )
