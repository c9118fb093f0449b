"""Estimate tasks, jobs, core-hours, bytes and memory of each step for a large corpus, from measurements of a small one.

Time and bytes are proportional to the bytes of text, because every step reads its input once. The exception is
`candidates`: it reads its keys once per pass, and whole row groups, which also contain keys of other partitions.
A smaller `dedup.memory_bytes` means more passes.

Memory does not grow with the input. A step over one shard takes the memory that was measured. Every other step takes up
to `dedup.memory_bytes` more than it took for the smallest measured corpus.

`bench/corpus_memory.py` measures the steps. `bench/corpus_scale.py` writes docs/corpus-scale.md, the estimate for
BLOOM's corpus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bloomery.config.corpus import CorpusConfig
from data_prep.corpus.dedup.candidates import BYTES_PER_KEY
from data_prep.corpus.dedup.scatter_keys import CHUNK_ROWS
from data_prep.formats.shard import ROW_GROUP_ROWS


@dataclass(frozen=True)
class Step:
    """One rule of the workflow: its inputs, its outputs, and how it is divided into tasks."""

    verb: str
    per: Literal["shard", "partition", "corpus"]
    reads: tuple[str, ...]
    """Folders of the run's `corpus/` that the step reads. `texts` stands for the files of the sources."""
    writes: tuple[str, ...]
    group: str = ""
    """SLURM group. One job runs all steps of a group for `shards_a_job` shards. If the group is empty, each
    task is a job."""


STEPS = (
    Step("corpus ingest", "shard", ("texts",), ("raw",), "read"),
    Step("corpus measure", "shard", ("raw",), ("measures",), "read"),
    Step("corpus judge", "shard", ("measures",), ("verdicts",), "read"),
    Step("corpus decontaminate", "shard", ("raw",), ("contaminated",), "read"),
    Step("corpus dedup keys", "shard", ("measures", "verdicts"), ("keys",), "read"),
    Step("corpus dedup candidates", "partition", ("keys",), ("candidates", "repeated")),
    Step("corpus dedup connect", "corpus", ("candidates",), ("clusters", "involved")),
    Step("corpus dedup members", "shard", ("raw", "measures", "involved"), ("members",), "members"),
    Step("corpus dedup resolve", "partition", ("clusters", "members"), ("resolved",)),
    Step("corpus clean", "shard", ("raw", "verdicts", "contaminated", "resolved"), ("clean", "removed"), "write"),
)
"""All steps that process documents, except the optional removal of repeated lines. `mixture` and the report are absent,
because they read only manifests and few rows per shard."""

SHUFFLED = ("keys", "candidates", "clusters", "members", "resolved")
"""Folders whose data is passed from shards to partitions, or back."""


KEY_BYTES_PER_SECOND = 500e6
"""Speed at which one core reads keys from Parquet in a further pass, in bytes per second. Measured: 600 to 800 MB/s."""


@dataclass(frozen=True)
class Corpus:
    """Size of a corpus, with the settings that divide it into shards, partitions and jobs."""

    text_bytes: float
    source_bytes: float
    """Bytes of the files of the sources. They determine the number of shards."""
    documents: float
    config: CorpusConfig
    shards_a_job: int
    """Number of shards that share one SLURM job (`group-components` of the profile)."""

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-int(self.source_bytes) // self.config.ingest.shard_bytes)

    @property
    def passes(self) -> int:
        """Number of times that `candidates` reads the keys of its partition."""
        dedup = self.config.dedup
        keys = self.documents * self._keys_a_document / dedup.partitions
        return -(-int(keys * BYTES_PER_KEY) // dedup.memory_bytes)

    @property
    def key_reads(self) -> float:
        """Average number of times that a key is read.

        Only whole row groups can be read. So each pass also reads, per chunk, about one row group of other partitions'
        keys.
        """
        rows = CHUNK_ROWS * self._keys_a_document / self.config.dedup.partitions
        return self.passes * (1 + ROW_GROUP_ROWS / rows)

    @property
    def _keys_a_document(self) -> int:
        """Number of keys per document: one for the id, one for the content, and one per MinHash band."""
        return 2 + self.config.dedup.near.bands


@dataclass(frozen=True)
class Row:
    """Estimate for one step. The numbers are totals over all tasks, except `peak_mib`."""

    verb: str
    tasks: int
    group: str
    jobs: int
    """Number of SLURM jobs of the step's group."""
    core_hours: float
    read_bytes: float
    written_bytes: float
    peak_mib: float
    """Approximate peak memory of one task, in MiB."""


def arithmetic(corpus: Corpus, measured: Mapping[str, Any], smallest: Mapping[str, Any]) -> list[Row]:
    """Return an estimate for each step of `STEPS` that was measured.

    Args:
        corpus: the corpus to estimate.
        measured: the entry of the largest corpus in `by_scale` of bench/results/corpus_memory.json. Times and bytes
            are scaled from this entry.
        smallest: the entry of the smallest corpus. Its peak memory stands for the memory that each step needs in
            addition to `dedup.memory_bytes`.
    """
    times = corpus.text_bytes / (measured["megabytes"] * 1e6)
    left = {folder: size * times for folder, size in measured["bytes_left"].items()} | {"texts": corpus.source_bytes}
    tasks = {"shard": corpus.shards, "partition": corpus.config.dedup.partitions, "corpus": 1}
    rows = []
    for step in STEPS:
        if step.verb not in measured["jobs"]:
            continue
        took = measured["jobs"][step.verb]
        filled = 0 if step.per == "shard" else corpus.config.dedup.memory_bytes / 2**20
        read_bytes = sum(left.get(folder, 0) for folder in step.reads)
        again = read_bytes * (corpus.key_reads - 1) if step.verb == "corpus dedup candidates" else 0
        rows.append(
            Row(
                verb=step.verb,
                tasks=tasks[step.per],
                group=step.group or step.verb,
                jobs=-(-tasks[step.per] // corpus.shards_a_job) if step.group else tasks[step.per],
                core_hours=(took["core_seconds"] * times + again / KEY_BYTES_PER_SECOND) / 3600,
                read_bytes=read_bytes + again,
                written_bytes=sum(left.get(folder, 0) for folder in step.writes),
                peak_mib=max(took["peak_mib"], smallest["jobs"][step.verb]["peak_mib"] + filled),
            )
        )
    return rows


def slurm_jobs(rows: list[Row]) -> int:
    """Return the number of SLURM jobs of all steps. The jobs of a group are counted once."""
    return sum({row.group: row.jobs for row in rows}.values())


def shuffled_bytes(corpus: Corpus, measured: Mapping[str, Any]) -> float:
    """Return the bytes of the `SHUFFLED` folders at the size of `corpus`. Each byte is counted once, as written."""
    left: Mapping[str, float] = measured["bytes_left"]
    return sum(left.get(folder, 0) for folder in SHUFFLED) * corpus.text_bytes / (float(measured["megabytes"]) * 1e6)
