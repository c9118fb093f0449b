"""Test the jobs of a run that removes repeated lines: later jobs read the texts without these lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from workflow_support import Workflow

pytestmark = pytest.mark.workflow

RULES = ("count_lines", "find_repeated_lines", "strip_lines")


def commands(talk: str, verb: str) -> list[str]:
    """Return the `bloomery corpus` commands with the given verb in the output of a dry-run."""
    return [line for line in talk.splitlines() if f"bloomery corpus {verb} " in line]


def test_repeated_lines_are_removed_from_all_shards_before_anything_is_measured(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh().changed("corpus.lines", {"enabled": True, "partitions": 3})
    planned = workflow.planned("corpus")
    shards = planned["ingest"]
    assert shards > 1
    assert [planned[rule] for rule in RULES] == [shards, 3, shards]
    talk = workflow.run("corpus", "--dry-run", "--printshellcmds")
    for verb in ("measure", "clean"):
        assert len(commands(talk, verb)) == shards
        assert all("corpus/stripped/" in command and "corpus/raw/" not in command for command in commands(talk, verb))


def test_by_default_no_job_is_planned_for_repeated_lines(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh()
    assert not set(RULES) & set(workflow.planned("corpus"))
    talk = workflow.run("corpus", "--dry-run", "--printshellcmds")
    assert commands(talk, "measure")
    assert all("corpus/raw/" in command for command in commands(talk, "measure"))
