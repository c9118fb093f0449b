"""The tokenizer's gate in a run: nothing is encoded before it is passed, however often the run is started."""

from __future__ import annotations

import shutil

import pytest
from workflow_support import Workflow

pytestmark = pytest.mark.workflow


def test_a_gate_that_is_not_passed_stops_every_run_until_it_is(indexed: Workflow) -> None:
    # A verdict without limits came first: it must not stand in for the one that fails.
    free = indexed
    shutil.rmtree(free.run_folder / "index")
    strict = free.changed("tokenizer.report", {"gate": {"max_tokens_per_word": 0.1}})
    for _ in range(2):
        talk = strict.run("index", expect=1)
        assert "English (en): tokens per word" in talk
        assert (strict.run_folder / "report/tokenizer.html").is_file()
        assert not (strict.run_folder / "index/tokens").exists()
    loose = free.changed("tokenizer.report", {"gate": {"max_tokens_per_word": 100.0}})
    loose.run("index")
    assert loose.planned("index") == {}
    # What was encoded stays encoded, but the run stops again, and again.
    tokens = loose.digests("index/tokens")
    for _ in range(2):
        assert "encode" not in strict.planned("index")
        strict.run("index", expect=1)
    assert set(loose.planned("index")) == {"report_tokenizer", "check_tokenizer", "index"}
    loose.run("index")
    assert loose.digests("index/tokens") == tokens
