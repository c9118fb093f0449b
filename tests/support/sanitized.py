"""Compiles C++ of csrc/ with AddressSanitizer and UndefinedBehaviorSanitizer around a driver of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
FLAGS = [
    *("-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
]


def compile_driver(driver: Path, sources: Iterable[str], folder: Path) -> Path:
    """The program of `driver` and the C++ files `sources` below csrc/, in `folder`; skips without a compiler."""
    if COMPILER is None:
        assert "CI" not in os.environ, "continuous integration has a C++ compiler"
        pytest.skip("no C++ compiler")
    program = folder / driver.stem
    files = [str(driver), *(str(ROOT / "csrc" / source) for source in sources)]
    done = subprocess.run(
        [COMPILER, *FLAGS, f"-I{ROOT}/csrc", *files, "-o", str(program)], capture_output=True, text=True
    )
    if done.returncode and "sanitize" in done.stderr and "CI" not in os.environ:
        pytest.skip(f"a compiler without sanitizers: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return program
