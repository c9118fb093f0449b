"""Run the blend's C++ code under AddressSanitizer and UndefinedBehaviorSanitizer and compare it with the extension
module."""

import random
from pathlib import Path

import numpy as np
import pytest
from sanitized import compile_driver, run_driver

from data_prep.index import _index

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).parent / "sanitize/blend.cpp"
    return compile_driver(source, ["index/blend.cpp"], tmp_path_factory.mktemp("sanitize"))


def calls() -> list[tuple[list[tuple[int, int, int]], int, int, int]]:
    """Return calls as (shares, planned, begin, end).

    They have small numbers, equal quotas, the largest numbers, or more samples than the kernel computes at a time.
    """
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


def test_the_blend_runs_without_faults_and_equals_the_module(driver: Path) -> None:
    given = calls()
    lines = []
    for shares, planned, begin, end in given:
        lines.append(f"{planned} {begin} {end} {len(shares)} " + " ".join(f"{q} {n} {f}" for q, n, f in shares))
    printed = run_driver(driver, "\n".join(lines).encode()).splitlines()
    assert len(printed) == len(given)
    for line, (shares, planned, begin, end) in zip(printed, given, strict=True):
        quotas, numbers, firsts = np.array(shares, dtype=np.int64).T.copy()
        expected = np.stack(_index.blend(quotas, numbers, firsts, planned, begin, end), axis=1)
        assert [int(word) for word in line.split()] == expected.ravel().tolist()
