"""Test that the estimates of memory and time are not below what the benchmarks measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planned_run import planned, small_config
from repository import ROOT

from bloomery.orchestration.data_jobs import UNKNOWN_MB, job_cost, part_megabytes

pytestmark = pytest.mark.usefixtures("no_site")
RULES = {
    "corpus ingest": "ingest",
    "corpus decontaminate": "decontaminate",
    "corpus measure": "measure",
    "corpus judge": "judge",
    "corpus dedup keys": "scatter_keys",
    "corpus dedup candidates": "find_candidates",
    "corpus dedup connect": "connect_candidates",
    "corpus dedup members": "gather_members",
    "corpus dedup resolve": "resolve_duplicates",
    "corpus clean": "clean",
    "corpus mixture": "weigh_mixture",
    "report corpus": "report_corpus",
}
"""Rule of each command that `bench/corpus_memory.py` measured."""


def results(name: str) -> dict:
    return json.loads((ROOT / "bench/results" / f"{name}.json").read_text())


@pytest.mark.parametrize("verb", RULES)
def test_every_measured_corpus_job_fits_into_half_of_what_its_rule_requests(tmp_path: Path, verb: str) -> None:
    cost = job_cost(small_config(tmp_path, corpus={"dedup": {"memory_bytes": "512MiB"}}), RULES[verb])
    for scale, found in results("corpus_memory")["by_scale"].items():
        measured = found["jobs"][verb]
        text_mb = found["megabytes"] / measured["jobs"]
        assert cost.peak_mb + cost.peak_per_mb * text_mb >= measured["peak_mib"] * 1.048576 * 0.95, scale
        assert cost.memory_mb(text_mb) >= 2 * measured["peak_mib"], scale
        seconds = measured["core_seconds"] / measured["jobs"]
        assert cost.minutes(text_mb) * 60 >= 600 + 4 * seconds, scale


def test_the_measured_jobs_of_tokenizer_and_index_fit(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    for job in results("encode")["jobs"]:
        encode = job_cost(config, "encode")
        assert encode.peak_mb + encode.peak_per_mb * job["megabytes"] >= job["peak_megabytes"]
        assert encode.minutes(job["megabytes"]) * 60 > 600 + 4 * job["seconds"]
    counted = results("tokenizer_count")
    train = job_cost(config, "train_tokenizer")
    for pieces, found in results("bpe_train")["scaling"].items():
        text_mb = int(pieces) / (counted["unique"]["bloom"] / counted["megabytes"])
        assert train.memory_mb(text_mb) >= 1.9 * found["peak_megabytes"]
    # The memory is limited by `tokenizer.max_pieces`, so terabytes of text take no more: 400 + 32 M x 70 bytes.
    assert train.memory_mb(1.6e6) == 5700
    build = job_cost(config, "build_index")
    for run in results("index")["runs"]:
        # The corpus of BLOOM has 500 M documents in 1.61 TB.
        assert build.memory_mb(run["documents"] * 1.61e6 / 500e6) * 1e6 >= 2 * run["peak_rss_bytes"]


def test_the_text_of_a_shard_follows_from_the_sizes_of_its_files(tmp_path: Path) -> None:
    sources = []
    for name, ending, size in (("plain", ".jsonl", 3000), ("packed", ".jsonl.zst", 1000)):
        (tmp_path / f"{name}{ending}").write_bytes(b"x" * size)
        sources.append({"name": name, "kind": "jsonl", "paths": [str(tmp_path / f"{name}{ending}")]})
    sources += [{"name": "udhr", "kind": "udhr"}, {"name": "hub", "kind": "hub", "dataset": "a/b"}]
    plan = planned(tmp_path, sources=sources)
    # A file of 3,000 bytes becomes two pieces of at most 2,048 bytes. A compressed file has four times its size.
    assert part_megabytes(plan.config, plan.parts) == {
        "plain/00000": 0.0015,
        "plain/00001": 0.0015,
        "packed/00000": 0.004,
        "udhr/00000": 20.0,
        "hub/00000": UNKNOWN_MB,
    }
    assert plan.corpus_mb == pytest.approx(UNKNOWN_MB + 20.007)


def test_a_rule_without_a_measurement_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        job_cost(small_config(tmp_path), "train_segment")
