"""Run splits, orders and sample starts under the sanitizers and compare them with the extension module."""

import random
from pathlib import Path

import numpy as np
import pytest
from sanitized import compile_driver, run_driver

from data_prep.index import _index
from data_prep.index.split import numbers_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).parent / "sanitize/order.cpp"
    return compile_driver(source, ["index/deal.cpp", "index/order.cpp"], tmp_path_factory.mktemp("sanitize"))


def calls() -> list[tuple[list[int], tuple[int, int, int, int, int, int]]]:
    """Return calls with few rows, with several buckets and with late epochs.

    A call holds the tokens of each document and (key, epoch, band, count, sequence length, samples).
    """
    rng = random.Random(0)
    found = []
    for _ in range(150):
        lengths = [rng.randrange(9) for _ in range(rng.randrange(1, 40))] + [1]
        rest = (rng.randrange(2**63), rng.randrange(2**31), rng.randrange(1, 50), rng.randrange(200))
        found.append((lengths, (*rest, rng.randrange(1, 20), rng.randrange(50))))
    found.append(([1] * 140_000, (3, 0, 1, 300_000, 7, 10_000)))
    found.append(([2, 0] * 45_000, (4, 5, 1 << 20, 91_000, 2048, 100)))
    found.append(([2**31 - 1] * 3, (5, 0, 1, 9, 2**30, 12)))
    return found


def expected(lengths: list[int], rest: tuple[int, int, int, int, int, int]) -> list[list[int]]:
    key, epoch, band, count, sequence_length, samples = rest
    documents = len(lengths)
    codes = np.arange(documents, dtype=np.int32) % 2
    split = _index.Deal()
    keys, pairs = np.arange(documents, dtype=np.uint64), np.arange(4, dtype=np.int32).reshape(2, 2)
    split.add(0, np.array(lengths, np.int32), codes, codes, keys, pairs, documents // 3, False)
    rows = split.take(list(range(len(split.groups()))))
    ordered = _index.EpochOrder(rows, key, epoch, band).take(count, 0)
    starts = _index.SampleWalk(sequence_length, samples, 0, 0).advance(ordered, False)
    shuffled = _index.SampleOrder(sum(lengths), sequence_length, key, epoch, band).take(count)
    bad = _index.EpochCheck(documents, documents).advance(numbers_of(ordered).astype(np.uint32))
    assert bad == -1
    return [rows.tolist(), ordered.tolist(), starts.ravel().tolist(), shuffled.tolist(), [count]]


def test_orders_run_without_faults_and_equal_the_module(driver: Path) -> None:
    given = calls()
    lines = (" ".join(map(str, (len(lengths), *rest, *lengths))) for lengths, rest in given)
    printed = [
        [int(word) for word in line.split()] for line in run_driver(driver, "\n".join(lines).encode()).splitlines()
    ]
    wanted = [line for call in given for line in expected(*call)]
    assert len(printed) == len(wanted)
    assert all(found == right for found, right in zip(printed, wanted, strict=True))
