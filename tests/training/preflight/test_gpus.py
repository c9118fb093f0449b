"""Test how NVML's answers are read. This machine has no GPU, so the tests provide the answers of a node with GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bloomery.contracts.preflight import GpuState
from training.preflight.gpus import gpu_states

pynvml = pytest.importorskip("pynvml")


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert gpu_states() == ((), None)


def test_a_gpu_is_described_and_what_it_does_not_report_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def handle(index: int) -> int:
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    ended = []
    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: ended.append(True),
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda _: "H200",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=10**9),
        "nvmlDeviceGetTotalEccErrors": lambda *_: 3,
        "nvmlDeviceGetRemappedRows": lambda _: (0, 1, 0, 1),
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: (
            pynvml.nvmlClocksThrottleReasonHwThermalSlowdown | pynvml.nvmlClocksThrottleReasonGpuIdle
        ),
        "nvmlDeviceGetClockInfo": lambda *_: 900,
        "nvmlDeviceGetMaxClockInfo": unsupported,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    gpus, driver = gpu_states()
    assert driver == "570.1"
    assert gpus == (
        GpuState(
            index=0,
            name="H200",
            memory_bytes=10**9,
            uncorrected_errors=3,
            remapping_failed=True,
            clock_mhz=900,
            throttled_by=("temperature (hardware)",),
        ),
        GpuState(index=1, name="a GPU that NVML cannot open"),
    )
    assert ended == [True]
