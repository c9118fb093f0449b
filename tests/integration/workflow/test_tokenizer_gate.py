"""Test the tokenizer's gate in a run: nothing is encoded before the gate passes, even if the run is started again."""

from __future__ import annotations

import shutil

import pytest
from workflow_support import Workflow

pytestmark = pytest.mark.workflow


def test_a_failed_gate_stops_every_run_until_it_passes(indexed: Workflow) -> None:
    # The run has a verdict without limits. It must not replace the verdict that fails.
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
    # The encoded tokens stay, but every run with the strict gate stops again.
    tokens = loose.digests("index/tokens")
    for _ in range(2):
        assert "encode" not in strict.planned("index")
        strict.run("index", expect=1)
    assert set(loose.planned("index")) == {"report_tokenizer", "check_tokenizer", "index"}
    loose.run("index")
    assert loose.digests("index/tokens") == tokens
