"""Run dropout under the sanitizers and compare it with the extension module."""

import random
from pathlib import Path

import numpy as np
import pytest
from sanitized import compile_driver, kernel_sources, run_driver

from training.model import _dropout


def _expected(key: int, stream: int, first: int, count: int, threshold: int) -> list[int]:
    x = np.arange(1, count + 1, dtype=np.float32)[None]
    out, narrow = np.empty_like(x), (x.view(np.uint32) >> 16).astype(np.uint16)
    numbers = np.array([[key, stream]], dtype=np.uint64).view(np.int64)
    _dropout.drop_float(x, out, numbers, first, threshold, 2.0)
    _dropout.drop_bfloat16(narrow, narrow, numbers, first, threshold, 2.0)
    return [*out.view(np.uint32).ravel().tolist(), *narrow.ravel().tolist()]


@pytest.mark.slow
def test_dropout_runs_without_faults_and_equals_the_module(tmp_path: Path) -> None:
    driver = compile_driver(Path(__file__).parent / "sanitize/drop.cpp", kernel_sources("dropout"), tmp_path)
    rng = random.Random(0)
    calls = [
        (rng.randrange(2**64), rng.randrange(2**64), rng.randrange(2**40), rng.randrange(1, 500), rng.randrange(2**16))
        for _ in range(200)
    ]
    calls += [(1, 2, 0, count, 30_000) for count in (1, 127, 128, 129, 256, 1000)]
    printed = run_driver(driver, "\n".join(" ".join(map(str, call)) for call in calls).encode()).splitlines()
    assert len(printed) == len(calls)
    for call, line in zip(calls, printed, strict=True):
        assert [int(word) for word in line.split()] == _expected(*call)


@pytest.mark.parametrize(
    ("x", "out", "numbers"),
    [((2, 3), (2, 4), (2, 2)), ((2, 3), (2, 3), (1, 2)), ((2, 3), (2, 3), (2, 3)), ((6,), (6,), (1, 2))],
)
def test_wrong_shapes_are_refused(x: tuple[int, ...], out: tuple[int, ...], numbers: tuple[int, ...]) -> None:
    arrays = np.ones(x, np.float32), np.ones(out, np.float32), np.ones(numbers, np.int64)
    with pytest.raises(ValueError, match="must be"):
        _dropout.drop_float(*arrays, 0, 1, 1.0)
