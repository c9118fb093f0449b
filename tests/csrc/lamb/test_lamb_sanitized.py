"""Run the passes of LAMB under the sanitizers and compare them with the extension module."""

from pathlib import Path

import numpy as np
import pytest
from sanitized import compile_driver, kernel_sources, run_driver

from training.optim import _lamb

Call = tuple[int, int, list[tuple[int, int]]]

CALLS: list[Call] = [
    (1, 1, [(0, 1)]),
    (1, 40, []),
    (2, 40, [(0, 7), (7, 0), (9, 31)]),
    (3, 1100, [(3, 1025), (1030, 60)]),
    (2, 140_000, [(0, 131_073), (131_080, 8000)]),
    (1, 140_000, [(0, 131_073), (131_080, 8000)]),
]


def _expected(threads: int, elements: int, segments: list[tuple[int, int]]) -> list[int]:
    numbers = np.arange(elements)
    weights = ((numbers % 97).astype(np.float32) / np.float32(97) - np.float32(0.5)).astype(np.float32)
    gradient = ((numbers % 89).astype(np.float32) / np.float32(89) - np.float32(0.25)).astype(np.float32)
    mean, square = np.zeros((2, elements), np.float32)
    rows = np.array(segments, np.int64).reshape(-1, 2)
    sums = _lamb.update_moments(weights, gradient, mean, square, rows, 0.5, 0.75, 0.5, 0.25, 0.125, 0.25, threads)
    _lamb.update_weights(weights, gradient, rows, np.full(len(rows), 0.5, np.float32), threads)
    return [*sums.view(np.uint64).ravel().tolist(), *weights.view(np.uint32).tolist()]


@pytest.mark.slow
def test_both_passes_run_without_faults_and_equal_the_module(tmp_path: Path) -> None:
    driver = compile_driver(Path(__file__).parent / "sanitize/lamb.cpp", kernel_sources("lamb"), tmp_path)
    lines = [" ".join(map(str, (call[0], call[1], len(call[2]), *sum(call[2], ())))) for call in CALLS]
    printed = run_driver(driver, "\n".join(lines).encode()).splitlines()
    assert len(printed) == len(CALLS)
    for call, line in zip(CALLS, printed, strict=True):
        assert [int(word) for word in line.split()] == _expected(*call)


@pytest.mark.parametrize(
    ("rows", "message"),
    [([(0, 5)], "outside"), ([(-1, 2)], "outside"), ([(3, -1)], "outside"), ([(0, 1, 2)], "must be")],
)
def test_wrong_segments_are_refused(rows: list[tuple[int, ...]], message: str) -> None:
    arrays = np.zeros((4, 4), np.float32)
    with pytest.raises(ValueError, match=message):
        _lamb.update_moments(*arrays, np.array(rows, np.int64), 0.9, 0.9, 1.0, 1.0, 1e-6, 0.0, 1)


def test_arrays_of_other_lengths_and_types_are_refused() -> None:
    arrays = np.zeros((4, 4), np.float32)
    rows, constants = np.array([(0, 3)], np.int64), (0.9, 0.9, 1.0, 1.0, 1e-6, 0.0, 1)
    with pytest.raises(ValueError, match="same length"):
        _lamb.update_moments(arrays[0], arrays[1], arrays[2], np.zeros(3, np.float32), rows, *constants)
    with pytest.raises(TypeError):
        _lamb.update_moments(arrays[0], arrays[1], arrays[2], np.zeros(4), rows, *constants)
