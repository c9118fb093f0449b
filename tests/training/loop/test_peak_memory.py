"""Test the peak memory of a process."""

from __future__ import annotations

import subprocess
import sys

from repository import ROOT

from training.loop.peak_memory import peak_main_memory_bytes

HELD = 1 << 30


def test_the_peak_counts_memory_that_was_released() -> None:
    before = peak_main_memory_bytes()
    block = bytearray(b"x" * HELD)
    del block
    assert peak_main_memory_bytes() > max(before, HELD)


def test_the_peak_does_not_count_the_program_that_started_the_process() -> None:
    shown = "from training.loop.peak_memory import peak_main_memory_bytes; print(peak_main_memory_bytes())"
    program = f"import os, sys; held = b'x' * {HELD}; os.execv(sys.executable, [sys.executable, '-c', {shown!r}])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 1 << 20 < int(done.stdout) < HELD
