"""The arithmetic of a large corpus: tasks, jobs, core-hours, bytes and memory of each step, from what a small one took.

Time and bytes follow the bytes of text: every step goes through its input once, but for `candidates`, which reads its
keys once a pass (`dedup.memory_bytes`). Memory does not follow the input: that of a step over one shard is what was
measured; a step over a partition holds at most `dedup.memory_bytes` besides. `bench/corpus_memory.py` measures,
`bench/corpus_scale.py` writes the page docs/corpus-scale.md for the largest corpus that this is meant for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bloomery.config.corpus import CorpusConfig
from data_prep.corpus.dedup.candidates import BYTES_PER_KEY


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


@dataclass(frozen=True)
class Corpus:
    """How large a corpus is, and in how many pieces."""

    text_bytes: float
    documents: float
    config: CorpusConfig
    shards_a_job: int
    """Shards that share one SLURM job (`group-components` of the profile)."""

    @property
    def shards(self) -> int:
        """Parts, for sources that are not compressed."""
        return -(-int(self.text_bytes) // self.config.ingest.shard_bytes)

    @property
    def passes(self) -> int:
        """Times that `candidates` reads the keys of its partition: an id, a content and the bands of each document."""
        dedup = self.config.dedup
        keys = self.documents * (2 + dedup.near.bands) / dedup.partitions
        return -(-int(keys * BYTES_PER_KEY) // dedup.memory_bytes)


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
    """Greatest memory of a task."""


def arithmetic(corpus: Corpus, measured: Mapping[str, Any]) -> list[Row]:
    """Each step of `STEPS` that was measured.

    Args:
        corpus: the corpus that is asked about.
        measured: one of `by_scale` of bench/results/corpus_memory.json.
    """
    times = corpus.text_bytes / (measured["megabytes"] * 1e6)
    left = {folder: size * times for folder, size in measured["bytes_left"].items()}
    tasks = {"shard": corpus.shards, "partition": corpus.config.dedup.partitions, "corpus": 1}
    rows = []
    for step in STEPS:
        if step.verb not in measured["jobs"]:
            continue
        took = measured["jobs"][step.verb]
        held = 0 if step.per == "shard" else corpus.config.dedup.memory_bytes / 2**20
        again = corpus.passes if step.verb == "corpus dedup candidates" else 1
        rows.append(
            Row(
                verb=step.verb,
                tasks=tasks[step.per],
                group=step.group or step.verb,
                jobs=-(-tasks[step.per] // corpus.shards_a_job) if step.group else tasks[step.per],
                core_hours=took["core_seconds"] * times / 3600,
                read_bytes=sum(left.get(folder, 0) for folder in step.reads) * again,
                written_bytes=sum(left.get(folder, 0) for folder in step.writes),
                peak_mib=took["peak_mib"] + held,
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
