"""Test the estimates of jobs, hours and bytes for a large corpus, and the page that shows them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from repository import ROOT

from bloomery.config.corpus import CorpusConfig
from data_prep.corpus.scale import STEPS, Corpus, arithmetic, shuffled_bytes, slurm_jobs

MEASURED: dict[str, Any] = {
    "megabytes": 100.0,
    "jobs": {step.verb: {"jobs": 1, "core_seconds": 9.0, "peak_mib": 200.0} for step in STEPS},
    "bytes_left": {"texts": 20e6, "raw": 30e6, "measures": 5e6, "keys": 8e6, "members": 2e6, "clean": 25e6},
}
CORPUS = Corpus(
    text_bytes=1e12,
    source_bytes=1e12,
    documents=3e8,
    config=CorpusConfig.model_validate(
        {"ingest": {"shard_bytes": 2 * 10**8}, "dedup": {"partitions": 100, "memory_bytes": "512MiB"}}
    ),
    shards_a_job=8,
)


def test_tasks_depend_on_bytes_and_partitions_and_share_jobs() -> None:
    rows = {row.verb: row for row in arithmetic(CORPUS, MEASURED, MEASURED)}
    assert {verb: row.tasks for verb, row in rows.items() if row.tasks != 5000} == {
        "corpus dedup candidates": 100,
        "corpus dedup connect": 1,
        "corpus dedup resolve": 100,
    }
    assert rows["corpus measure"].jobs == rows["corpus clean"].jobs == 625
    # The groups read, members and clean have 625 jobs each.
    assert slurm_jobs(list(rows.values())) == 3 * 625 + 201


def test_measured_hours_and_bytes_are_scaled_to_the_size_of_the_text() -> None:
    rows = {row.verb: row for row in arithmetic(CORPUS, MEASURED, MEASURED)}
    assert rows["corpus ingest"].core_hours == pytest.approx(9.0 * 10_000 / 3600)
    assert (rows["corpus ingest"].read_bytes, rows["corpus ingest"].written_bytes) == (1e12, 30e10)
    assert shuffled_bytes(CORPUS, MEASURED) == (8e6 + 2e6) * 10_000


def test_candidates_read_their_keys_and_the_row_groups_around_them_once_per_pass() -> None:
    # 3e8 documents with 16 keys give 48 M keys of 112 bytes in each of 100 partitions. 512 MiB hold 4.8 M of them.
    assert CORPUS.passes == 11
    # A chunk of 65,536 documents has 10,486 keys of a partition. A row group holds 16,384 keys.
    assert CORPUS.key_reads == pytest.approx(11 * (1 + 16_384 / 10_485.76))
    row = next(row for row in arithmetic(CORPUS, MEASURED, MEASURED) if row.verb == "corpus dedup candidates")
    assert row.read_bytes == pytest.approx(8e10 * CORPUS.key_reads)
    assert row.core_hours == pytest.approx((9.0 * 10_000 + 8e10 * (CORPUS.key_reads - 1) / 500e6) / 3600)


def test_memory_does_not_depend_on_the_size_of_the_corpus() -> None:
    larger = replace(CORPUS, text_bytes=16e12, source_bytes=16e12, documents=48e8)
    first, second = arithmetic(CORPUS, MEASURED, MEASURED), arithmetic(larger, MEASURED, MEASURED)
    assert [row.peak_mib for row in first] == [row.peak_mib for row in second]
    assert {row.verb: row.peak_mib for row in first if row.peak_mib != 200} == {
        "corpus dedup candidates": 712,
        "corpus dedup connect": 712,
        "corpus dedup resolve": 712,
    }


def test_a_step_that_was_not_measured_is_left_out() -> None:
    jobs = {verb: took for verb, took in MEASURED["jobs"].items() if verb != "corpus decontaminate"}
    assert len(arithmetic(CORPUS, MEASURED | {"jobs": jobs}, MEASURED)) == len(STEPS) - 1


def test_the_page_equals_the_output_of_its_program() -> None:
    made = subprocess.run([sys.executable, ROOT / "bench/corpus_scale.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs/corpus-scale.md").read_text()


def test_every_measured_step_needed_less_than_1_gib() -> None:
    result = json.loads((ROOT / "bench/results/corpus_memory.json").read_text())
    assert result["settings"] == "default"
    assert max(peak for of in result["peak_mib"].values() for peak in of.values()) < 1024
