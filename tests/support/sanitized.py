"""Compile C++ of csrc/ and the driver of a test with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from repository import ROOT

COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
FLAGS = [
    *("-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
]


def kernel_sources(*folders: str) -> list[str]:
    """Return the C++ files in these folders of csrc/ that do not use Python, relative to csrc/."""
    found = [path for folder in folders for path in sorted((ROOT / "csrc" / folder).glob("*.cpp"))]
    return [path.relative_to(ROOT / "csrc").as_posix() for path in found if not path.stem.endswith("module")]


def run_driver(program: Path, given: bytes) -> str:
    """Return the output of the driver. Fail with the error message if a sanitizer reports an error."""
    done = subprocess.run([program], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-4000:]
    return done.stdout.decode()


def folded(values: Iterable[int]) -> tuple[int, int]:
    """Return the number and the FNV-1a hash of the values, which a driver prints instead of a long list."""
    state, count = 0xCBF29CE484222325, 0
    for value in values:
        state, count = (state ^ value) * 0x100000001B3 % 2**64, count + 1
    return count, state


def compile_driver(driver: Path, sources: Iterable[str], folder: Path, *defines: str) -> Path:
    """Compile `driver` and the files `sources` of csrc/ to a program in `folder`. Skip the test without a compiler.

    `defines` are macros such as `NAME=1`.
    """
    if COMPILER is None:
        assert "CI" not in os.environ, "continuous integration must have a C++ compiler"
        pytest.skip("no C++ compiler")
    program = folder / driver.stem
    files = [str(driver), *(str(ROOT / "csrc" / source) for source in sources)]
    done = subprocess.run(
        [COMPILER, *FLAGS, *(f"-D{each}" for each in defines), f"-I{ROOT}/csrc", *files, "-o", str(program)],
        capture_output=True,
        text=True,
    )
    if done.returncode and "sanitize" in done.stderr and "CI" not in os.environ:
        pytest.skip(f"the compiler has no sanitizers: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return program
