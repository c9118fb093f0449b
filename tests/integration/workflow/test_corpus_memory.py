"""Test with a small benchmark that the memory of every corpus job does not grow if the input grows fourfold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from repository import ROOT

SAMPLE = ROOT / "config/sample"


@pytest.mark.slow
@pytest.mark.workflow
def test_the_memory_of_every_job_does_not_grow_with_the_input(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for language in ("ar", "bn", "en", "es", "fr", "hi", "sw", "zhs"):
        rows = [json.loads(line) for line in (SAMPLE / f"{language}.jsonl").read_text().splitlines()]
        # The texts are long, so that they fill every buffer at both scales.
        texts = ["\n".join(row["text"] for row in rows[start : start + 8]) for start in range(0, len(rows), 8)]
        with zstandard.open(corpus / f"{language}.jsonl.zst", "wt", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"id": f"{language}-{number}", "lang": language, "text": text}) + "\n")
    command = [sys.executable, ROOT / "bench/corpus_memory.py", "--scales", "1,4", "--megabytes", "40"]
    # Enable repeated lines, which are off by default, and make the search for duplicates take several small passes.
    command += ["--corpus", json.dumps({"lines": {"enabled": True}, "dedup": {"memory_bytes": "16MiB"}})]
    ended = subprocess.run(
        [*command, "--folder", tmp_path],
        env=os.environ | {"BLOOMERY_CORPUS": str(corpus)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout
    result = json.loads(ended.stdout)
    jobs = ("ingest", "lines", "repeated-lines", "strip", "measure", "judge", "decontaminate", "clean", "mixture")
    steps = ("keys", "candidates", "connect", "members", "resolve")
    wanted = [f"corpus {job}" for job in jobs] + [f"corpus dedup {step}" for step in steps] + ["report corpus"]
    assert sorted(result["peak_mib"]) == sorted(wanted)
    one, four = (result["by_scale"][scale]["counts"] for scale in ("1", "4"))
    assert four["documents_in"] > 3.5 * one["documents_in"]
    assert not list(tmp_path.glob("corpus_memory-*")), "the benchmark must remove its files"
