"""The arithmetic of a large corpus: tasks, jobs, core-hours, bytes and memory of each step, from what a small one took.

Time and bytes follow the bytes of text: every step goes through its input once, but for `candidates`, which reads its
keys once a pass (`dedup.memory_bytes`), and with them the row groups that they lie in. Memory does not follow the
input: that of a step over one shard is what was measured; a step over a partition fills `dedup.memory_bytes` besides.
`bench/corpus_memory.py` measures, `bench/corpus_scale.py` writes docs/corpus-scale.md for the largest corpus that this
is meant for.
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
    """One rule of the workflow."""

    verb: str
    per: Literal["shard", "partition", "corpus"]
    reads: tuple[str, ...]
    """Folders of a run's `corpus/` that it reads, `texts` being the sources."""
    writes: tuple[str, ...]
    group: str = ""
    """Steps of a group that follow one another on a shard share a SLURM job."""


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
"""What works on documents; `mixture` and the report read manifests and a few rows of each shard."""

SHUFFLED = ("keys", "candidates", "clusters", "members", "resolved")
"""What goes from shards to partitions or back."""


KEY_BYTES_PER_SECOND = 500e6
"""Keys that are read once more, of Parquet on one core (seen: 600 to 800 MB/s)."""


@dataclass(frozen=True)
class Corpus:
    """How large a corpus is, and in how many pieces."""

    text_bytes: float
    source_bytes: float
    """Bytes of the sources' files, from which the number of shards follows."""
    documents: float
    config: CorpusConfig
    shards_a_job: int
    """Shards that share one SLURM job (`group-components` of the profile)."""

    @property
    def shards(self) -> int:
        """Parts of the sources."""
        return -(-int(self.source_bytes) // self.config.ingest.shard_bytes)

    @property
    def passes(self) -> int:
        """Times that `candidates` goes through the keys of its partition."""
        dedup = self.config.dedup
        keys = self.documents * self._keys_a_document / dedup.partitions
        return -(-int(keys * BYTES_PER_KEY) // dedup.memory_bytes)

    @property
    def key_reads(self) -> float:
        """Times that each key is read in all: with a partition's keys of a chunk, what is left of their row groups."""
        rows = CHUNK_ROWS * self._keys_a_document / self.config.dedup.partitions
        return self.passes * (1 + ROW_GROUP_ROWS / rows)

    @property
    def _keys_a_document(self) -> int:
        """Its id, its content and its bands."""
        return 2 + self.config.dedup.near.bands


@dataclass(frozen=True)
class Row:
    """One step at that size."""

    verb: str
    tasks: int
    group: str
    jobs: int
    """SLURM jobs of its group."""
    core_hours: float
    read_bytes: float
    written_bytes: float
    peak_mib: float
    """Greatest memory of a task, about."""


def arithmetic(corpus: Corpus, measured: Mapping[str, Any], smallest: Mapping[str, Any]) -> list[Row]:
    """Each step of `STEPS` that was measured.

    Args:
        corpus: the corpus that is asked about.
        measured: the largest of `by_scale` of bench/results/corpus_memory.json: times and bytes follow it.
        smallest: the smallest of these: what a step holds before `dedup.memory_bytes` are filled.
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
    """Jobs of all steps, those of a group once."""
    return sum({row.group: row.jobs for row in rows}.values())


def shuffled_bytes(corpus: Corpus, measured: Mapping[str, Any]) -> float:
    """Bytes that go from shards to partitions or back, each written once."""
    left: Mapping[str, float] = measured["bytes_left"]
    return sum(left.get(folder, 0) for folder in SHUFFLED) * corpus.text_bytes / (float(measured["megabytes"]) * 1e6)
