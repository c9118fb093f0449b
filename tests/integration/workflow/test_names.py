"""Test folders with spaces and letters of any script: every path in the command of a rule is quoted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from workflow_support import ROOT, TINY, Workflow

pytestmark = pytest.mark.workflow


def test_every_value_in_a_command_is_quoted() -> None:
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        text = path.read_text()
        commands = re.findall(r"^    shell:\n((?: {8}\".*\"\n)+)", text, flags=re.MULTILINE)
        assert len(commands) == text.count("    shell:"), path
        for command in commands:
            values = re.findall(r"\{([^{}]*)\}", command)
            assert [value for value in values if not value.endswith(":q")] == [], command


def test_a_root_may_have_spaces_and_a_source_special_characters(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh().changed("root", "x y é").changed("corpus.dedup.partitions", 1)
    texts = workflow.folder / "my texts ü"
    texts.mkdir()
    for name in ("en", "fr"):
        # Every character that Snakemake or the shell treats specially; `<name>` and `{name}` are refused.
        (texts / f"{name} <Y> < > {{ * ? [1] \n ' \" $(x) \\ #.jsonl").write_bytes(
            (ROOT / f"config/sample/{name}.jsonl").read_bytes()
        )
    workflow.config["sources"] = [TINY["sources"][0] | {"paths": [str(texts / "*.jsonl")]}]
    planned = workflow.run("--dry-run", "--printshellcmds")
    assert "bloomery corpus ingest --config 'x y é/tiny/config/ingest/texts/00000.json'" in planned
    assert "> 'x y é/tiny/logs/build_index.log'" in planned
    talk = workflow.run("corpus")
    run = workflow.folder / "x y é/tiny"
    assert (run / "report/corpus.html").exists()
    assert (run / "logs/connect_candidates.log").exists()
    assert "documents read" in talk
    assert "Nothing to be done" in workflow.run("corpus")
