"""Test that the corpus has the same bytes with 1, 2 and 7 jobs at a time."""

from __future__ import annotations

import pytest
from workflow_support import Workflow

pytestmark = pytest.mark.workflow


def test_the_corpus_has_the_same_bytes_whatever_the_number_of_workers(
    tmp_path_factory: pytest.TempPathFactory, finished: Workflow
) -> None:
    expected = finished.digests("corpus")
    assert expected
    for cores in (1, 7):
        workflow = Workflow(tmp_path_factory.mktemp(f"cores{cores}"), finished.config)
        workflow.run("corpus", "--cores", str(cores))
        assert workflow.digests("corpus") == expected
