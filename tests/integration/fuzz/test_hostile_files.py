"""Test a short draw of `bench/fuzz.py`: no change of a file of a run causes a traceback, a write outside or a hang."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hostile_verbs import TARGETS, VERBS, edit_by_hand, fuzz

pytestmark = pytest.mark.slow

MUTATIONS = 200


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Let torch compute with one thread, because threads that wait for each other use processor time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_no_changed_file_causes_a_traceback_a_write_outside_of_the_run_or_a_hang(tmp_path: Path) -> None:
    logging.disable(logging.CRITICAL)  # transformers and matplotlib log hundreds of lines
    try:
        result = fuzz(tmp_path, range(MUTATIONS), seed=18)
    finally:
        logging.disable(logging.NOTSET)
    assert [str(failure) for failure in result.failures] == []
    assert sum(result.mutations.values()) == MUTATIONS
    # The draw reaches most kinds of files, and the verbs both refuse and accept files.
    assert len(result.mutations) > len(TARGETS) // 2
    assert {*result.refused, *result.accepted} == VERBS.keys()
    assert result.accepted["status"] > 20
    assert sum(result.refused.values()) > 80


def test_no_hand_edit_of_index_json_causes_a_traceback(tmp_path: Path) -> None:
    # 0 documents, 0 tokens and a quota beyond 64 bits caused tracebacks.
    logging.disable(logging.CRITICAL)
    try:
        result = edit_by_hand(tmp_path, ["index/index.json"], [0, 2**63])
    finally:
        logging.disable(logging.NOTSET)
    assert [str(failure) for failure in result.failures] == []
    assert result.mutations["every value of index/index.json"] > 300
