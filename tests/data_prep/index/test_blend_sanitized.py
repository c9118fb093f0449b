"""The blend's kernel under AddressSanitizer and UndefinedBehaviorSanitizer: no fault, and the module's numbers."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from data_prep.index import _index

ROOT = Path(__file__).parents[3]
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
FLAGS = [
    *("-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        assert "CI" not in os.environ, "continuous integration has a C++ compiler"
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("sanitize") / "blend"
    sources = [Path(__file__).parent / "sanitize/blend.cpp", ROOT / "csrc/index/blend.cpp"]
    command = [COMPILER, *FLAGS, f"-I{ROOT}/csrc", *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "sanitize" in done.stderr and "CI" not in os.environ:
        pytest.skip(f"a compiler without sanitizers: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return program


def calls() -> list[tuple[list[tuple[int, int, int]], int, int, int]]:
    """(shares, planned, begin, end): small ones, ties, the greatest numbers, more slots than are dealt at a time."""
    rng = random.Random(0)
    found = []
    for _ in range(200):
        shares = [(rng.randrange(50), rng.randrange(2**31), rng.randrange(2**61)) for _ in range(rng.randrange(1, 30))]
        planned = max(1, sum(quota for quota, _, _ in shares))
        begin, end = sorted(rng.randrange(planned + 1) for _ in range(2))
        found.append((shares, planned, begin, end))
    found.append(([(100, number, 0) for number in range(300)], 30_000, 0, 30_000))
    found.append(([(20_011, 0, 0), (1, 1, 5), (9_973, 2, 0)], 29_985, 0, 29_985))
    greatest = 2**61
    for begin in (0, greatest // 3, greatest - 50):
        shares = [(greatest // 2, 0, greatest), (greatest // 4 + 1, 1, 0), (greatest // 4 - 1, 2, 7)]
        found.append((shares, greatest, begin, begin + 50))
    return found


def test_no_fault_and_the_module_s_numbers(driver: Path) -> None:
    given = calls()
    lines = []
    for shares, planned, begin, end in given:
        lines.append(f"{planned} {begin} {end} {len(shares)} " + " ".join(f"{q} {n} {f}" for q, n, f in shares))
    done = subprocess.run([driver], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.splitlines()
    assert len(printed) == len(given)
    for line, (shares, planned, begin, end) in zip(printed, given, strict=True):
        quotas, numbers, firsts = np.array(shares, dtype=np.int64).T.copy()
        expected = np.stack(_index.blend(quotas, numbers, firsts, planned, begin, end), axis=1)
        assert [int(word) for word in line.split()] == expected.ravel().tolist()
