"""Write docs/corpus-scale.md: the estimated cost of 1.6 TB in 500 M documents, from results of `corpus_memory.py`.

python bench/corpus_scale.py > docs/corpus-scale.md
"""

from __future__ import annotations

import json
from typing import Any

from _support import ROOT

from bloomery.config.corpus import CorpusConfig
from data_prep.corpus.scale import Corpus, Row, arithmetic, shuffled_bytes, slurm_jobs

LARGEST = Corpus(
    text_bytes=1.6e12,
    source_bytes=1.6e12,
    documents=500e6,
    config=CorpusConfig.model_validate({"dedup": {"partitions": 256}}),
    shards_a_job=8,
)
"""The corpus of BLOOM. `shards_a_job` equals `group-components` of workflow/profiles/slurm."""
RESULTS = ROOT / "bench/results/corpus_memory.json"


def size(count: float) -> str:
    """Format a number of bytes, for example 3.2e11 as `320 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count / 1e6:.3g} MB"


def line(row: Row) -> str:
    """Return one row of the table."""
    cells = [row.verb.removeprefix("corpus "), f"{row.tasks:,}", f"{row.jobs:,}", f"{row.core_hours:.1f}"]
    cells += [size(row.read_bytes), size(row.written_bytes), f"{row.peak_mib:.0f} MiB"]
    return "| " + " | ".join(cells) + " |"


def page(result: dict[str, Any]) -> str:
    """Return the text of the page."""
    by_scale, config = result["by_scale"], LARGEST.config
    smallest, largest = min(by_scale, key=int), max(by_scale, key=int)
    measured = by_scale[largest]
    rows = arithmetic(LARGEST, measured, by_scale[smallest])
    hours = sum(row.core_hours for row in rows)
    peaks = [
        f"| {job} | {' | '.join(f'{peak:.0f}' for peak in of.values())} |" for job, of in result["peak_mib"].items()
    ]
    newline = "\n"
    return f"""# How large a corpus may be

**Assumes:** you plan a corpus of terabytes on a cluster and know the [steps of the corpus](how-to/corpus.md).

`python bench/corpus_scale.py` generates this page. The arithmetic is in `data_prep/corpus/scale.py`. The measured
figures are in [bench/results/corpus_memory.json](../bench/results/corpus_memory.json).

## {size(LARGEST.text_bytes)} of text in {LARGEST.documents / 1e6:.0f} M documents

- The corpus has {LARGEST.shards:,} shards of {config.ingest.shard_bytes >> 20} MiB if the sources are not compressed.
  One SLURM job processes {LARGEST.shards_a_job} shards.
- There are {config.dedup.partitions} partitions, and `dedup.memory_bytes` is {config.dedup.memory_bytes >> 20} MiB.
  `dedup candidates` therefore needs {LARGEST.passes} passes over the keys of a partition. It reads each key about
  {LARGEST.key_reads:.0f} times, because a row group contains keys of several partitions.

| step | tasks | SLURM jobs | core-hours | reads | writes | memory of a task |
|---|---:|---:|---:|---:|---:|---:|
{newline.join(map(line, rows))}

- All steps together take {hours:.0f} core-hours, which is {hours / 100:.1f} hours on 100 cores.
- There are {slurm_jobs(rows):,} SLURM jobs, because consecutive steps on a shard share a job.
- {size(shuffled_bytes(LARGEST, measured))} are moved from shards to partitions or back.

## Memory while the input grows

The table shows the peak resident memory of a job in MiB with default settings, for
{by_scale[smallest]["megabytes"]:.0f} MB of text and for
{" and ".join(scale for scale in by_scale if scale != smallest)} times as much:

| job | {" | ".join(f"{entry['megabytes']:.0f} MB" for entry in by_scale.values())} |
|---|{"---:|" * len(by_scale)}
{newline.join(peaks)}
"""


if __name__ == "__main__":
    print(page(json.loads(RESULTS.read_text())), end="")
