"""Estimate memory and time of the workflow's data jobs from the bytes that they read.

Peak memory and processor seconds were measured on one core. The results are in `bench/results/`: `corpus_memory.json`
(shards of 100 and 533 MB of text, 100 and 1,600 MB in all), `tokenizer_count.json`, `bpe_train.json`, `encode.json` and
`index.json`. tests/bloomery/orchestration/test_data_jobs.py compares the table below with these results.

A job requests:

    memory = 2 x (peak without text + peak per MB x MB of text) + 400 MB
    time   = 10 minutes + 8 x processor seconds

The 400 MB are for the two processes with which Snakemake's executor starts a rule (160 MB each) and for the shell. The
factor 2 covers texts whose documents differ from the measured ones. The factor 8 covers slow disks and slow cores.

Each further attempt requests twice the memory and twice the time of the attempt before it. A job that exceeds its
memory may end in several ways (OUT_OF_MEMORY, exit code 137, FAILED), so every failed job is retried with more of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.config.sources import UdhrSource

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.orchestration.prepare_run import Part

_MEGABYTE = 1e6
_EXECUTOR_MB = 400
_MEMORY_FACTOR = 2.0
_FIRST_MINUTES = 10
_TIME_FACTOR = 8.0
_GROWTH = 2
"""Factor by which a further attempt requests more memory and time."""
_ROUNDED_TO_MB = 100
_COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst", ".zstd", ".parquet"})
_EXPANSION = 4.0
"""Bytes of text per byte of a compressed file. The text of the benchmarks has 2.6."""
_UDHR_MB = 20.0
UNKNOWN_MB = 10_000.0
"""Assumed text of a shard in MB if the source has no files whose size is known, such as a data set on the Hub."""
_PIECES_PER_MB = 9_400
"""Unique pre-tokens per MB of text, in the first 113 MB. Further text has fewer, because most have occurred before."""
_BYTES_PER_PIECE = 70
"""Memory of `tokenizer train` in bytes per unique pre-token. 8 M pre-tokens need 480 MB more than 0.5 M."""


class Scope(StrEnum):
    """Texts that one job of a rule reads."""

    SHARD = "shard"
    PAIR = "pair"
    """The shards of one pair of token files, or an adopted pair."""
    CORPUS = "corpus"


@dataclass(frozen=True)
class JobCost:
    """Measured memory and time of a rule's jobs."""

    scope: Scope
    peak_mb: float
    """Peak memory without text, in MB."""
    peak_per_mb: float = 0.0
    """Further peak memory per MB of text, in MB."""
    seconds: float = 0.0
    """Processor time without text, in seconds."""
    seconds_per_mb: float = 0.0
    """Further processor time per MB of text, in seconds."""
    most_peak_mb: float = math.inf
    """Limit of the peak memory, in MB, where the program itself has a limit."""

    def memory_mb(self, text_mb: float) -> int:
        """Return the memory that a job's first attempt requests for `text_mb` MB of text, in MB."""
        peak = min(self.peak_mb + self.peak_per_mb * text_mb, self.most_peak_mb)
        return math.ceil((_MEMORY_FACTOR * peak + _EXECUTOR_MB) / _ROUNDED_TO_MB) * _ROUNDED_TO_MB

    def minutes(self, text_mb: float) -> int:
        """Return the run time that a job's first attempt requests for `text_mb` MB of text, in minutes."""
        seconds = self.seconds + self.seconds_per_mb * text_mb
        return math.ceil(_FIRST_MINUTES + _TIME_FACTOR * seconds / 60)


@cache
def _costs(dedup_mb: float, partitions: int, max_pieces: int) -> dict[str, JobCost]:
    """Return the cost of each rule.

    Args:
        dedup_mb: limit of the memory of a search for duplicates (`corpus.dedup.memory_bytes`), in MB.
        partitions: number of partitions of that search.
        max_pieces: limit of the unique pre-tokens that `tokenizer train` keeps.
    """
    shard, pair, corpus = Scope.SHARD, Scope.PAIR, Scope.CORPUS
    # The job of a partition processes its share of the keys. It also reads whole row groups, which contain keys of
    # other partitions. This is 117 bytes of keys per KB of text, at 500 MB/s.
    partition_seconds = 0.0035 / max(1, partitions) + 0.00025
    pieces_mb = _BYTES_PER_PIECE / _MEGABYTE
    return {
        "ingest": JobCost(shard, 335, 0.10, 1, 0.028),
        "count_lines": JobCost(shard, 350, 0.20, 1, 0.03),
        "strip_lines": JobCost(shard, 350, 0.20, 1, 0.03),
        "measure": JobCost(shard, 335, 0.06, 1, 0.15),
        "judge": JobCost(shard, 245, 0.10, 1, 0.004),
        "decontaminate": JobCost(shard, 320, 0.16, 2, 0.03),
        "scatter_keys": JobCost(shard, 240, 0.25, 1, 0.004),
        "gather_members": JobCost(shard, 310, 0.16, 1, 0.006),
        "clean": JobCost(shard, 350, 0.18, 1, 0.03),
        "count_pretokens": JobCost(shard, 1075, _PIECES_PER_MB * pieces_mb, 1, 0.015),
        "encode": JobCost(pair, 450, 0.45, 3, 0.04),
        "adopt_tokens": JobCost(pair, 450, 0.05, 3, 0.02),
        "find_repeated_lines": JobCost(corpus, 350 + dedup_mb, 0, 1, partition_seconds),
        "find_candidates": JobCost(corpus, 250 + dedup_mb, 0, 1, partition_seconds),
        "connect_candidates": JobCost(corpus, 250 + dedup_mb, 0, 1, 0.0006),
        "resolve_duplicates": JobCost(corpus, 250 + dedup_mb, 0, 1, partition_seconds),
        "weigh_mixture": JobCost(corpus, 100, 0, 1, 0.0002),
        "report_corpus": JobCost(corpus, 400, 0, 5, 0.008),
        "report_tokenizer": JobCost(corpus, 3800, 0, 600, 0.004),
        "train_tokenizer": JobCost(
            corpus,
            peak_mb=400,
            peak_per_mb=_PIECES_PER_MB * pieces_mb,
            seconds=120,
            seconds_per_mb=0.004,
            most_peak_mb=400 + max_pieces * pieces_mb,
        ),
        # 13 bytes for each document. The corpus of BLOOM has 310 documents per MB. The estimate assumes 600.
        "build_index": JobCost(corpus, 300, 0.008, 60, 0.001),
        # The digest of every token file is computed, at 200 MB/s.
        "verify_index": JobCost(corpus, 300, 0.004, 10, 0.005),
    }


def job_cost(config: RunConfig, rule: str) -> JobCost:
    """Return the measured memory and time of a rule's jobs. Raises KeyError if the rule was not measured."""
    dedup = config.corpus.dedup
    return _costs(dedup.memory_bytes / _MEGABYTE, dedup.partitions, config.tokenizer.max_pieces)[rule]


def attempt_factor(attempt: int) -> int:
    """Return the factor by which attempt `attempt`, from 1, requests more memory and time than the first attempt."""
    return int(_GROWTH ** max(0, attempt - 1))


def shard_mb(config: RunConfig) -> float:
    """Return the text of a full shard of compressed files, in MB."""
    return _EXPANSION * config.corpus.ingest.shard_bytes / _MEGABYTE


def part_megabytes(config: RunConfig, parts: list[Part]) -> dict[str, float]:
    """Return the estimated text of each part in MB, from the sizes of its files. A missing file counts as empty."""
    udhr = {source.name for source in config.sources if isinstance(source, UdhrSource)}
    sizes: dict[str, float] = {}

    def size(name: str) -> float:
        if name not in sizes:
            path = Path(name)
            expansion = _EXPANSION if path.suffix.lower() in _COMPRESSED else 1.0
            sizes[name] = expansion * path.stat().st_size / _MEGABYTE if path.is_file() else 0.0
        return sizes[name]

    def text(part: Part) -> float:
        if not part.files:
            return _UDHR_MB if part.source in udhr else UNKNOWN_MB
        piece = part.portion.piece
        return sum(map(size, part.files)) / (piece.of if piece else 1)

    return {part.name: text(part) for part in parts}
