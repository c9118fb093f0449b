"""Test the facts about the machine that are found without torch."""

from __future__ import annotations

import os

import pytest

from data_prep.new_run.machine import Machine, guess_flops, parse_gpus, this_machine


def test_this_machine_has_processors_and_memory() -> None:
    found = this_machine()
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.memory_bytes > 1 << 28
    assert "of memory" in str(found) or found.gpus


def test_the_answer_of_nvidia_smi_is_read() -> None:
    text = "NVIDIA H200, 143771, 9.0\nNVIDIA H200, 143771, 9.0\n"
    assert parse_gpus(text) == [("NVIDIA H200", "143771", "9.0")] * 2
    assert parse_gpus("No devices were found\n") == []


@pytest.mark.parametrize(
    ("gpus", "bf16", "precision"), [(0, False, "fp32"), (0, True, "bf16"), (1, True, "bf16"), (1, False, "fp16")]
)
def test_the_precision_is_one_that_the_device_computes_fast(gpus: int, bf16: bool, precision: str) -> None:
    assert Machine(2, 1 << 30, gpus, has_bf16=bf16).precision == precision


def test_the_guess_of_the_speed_is_positive_and_grows_with_gpus() -> None:
    assert guess_flops(Machine(2, 1 << 30)) > 1e6
    assert guess_flops(Machine(2, 1 << 30, gpus=8)) == 8e14
