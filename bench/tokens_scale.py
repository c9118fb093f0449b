"""Write docs/tokens-scale.md: the estimated cost of a tokenizer and an index for 341.6 B tokens.

The estimates follow from the results of the benchmarks.

python bench/tokens_scale.py > docs/tokens-scale.md
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from _support import ROOT
from corpus_scale import LARGEST, size

from bloomery.config.tokens import TokenizerConfig

TOKENS = 341.6e9
TEXT_BYTES = 1.614e12
SEQUENCE_LENGTH = 2048
SAMPLES = 166.8e6
TOKEN_BYTES = 4
"""Bytes of a token id: int32, because a vocabulary of 250,680 does not fit into two bytes."""
PIECES_A_SHARD = 1e6
"""Rows of the count table of a shard with 256 MiB of text.

113 MB of text in 46 languages have 1.06 M rows; text in one language has fewer.
"""


def result(name: str) -> Any:
    """Return the result of a benchmark."""
    return json.loads((ROOT / f"bench/results/{name}.json").read_text())


def hours(seconds: float) -> str:
    """Format seconds, for example 3600 as `1.0 h`."""
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.1f} min"
        if seconds >= 60
        else f"{seconds:.0f} s"
    )


def mb(run: dict[str, Any]) -> str:
    """Format the peak memory of a run."""
    return f"{run['peak_megabytes']:,} MB"


def lines(rows: Iterable[Sequence[str]]) -> str:
    """Format the rows of a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def slope(runs: dict[str, Any], key: str) -> tuple[float, float]:
    """Return the value at the largest number of pieces, and its growth per piece between the two largest numbers."""
    small, great = sorted(map(int, runs))[-2:]
    before, after = runs[str(small)][key], runs[str(great)][key]
    return after, (after - before) / (great - small)


def training(rows: float, pieces: int) -> tuple[float, float, float]:
    """Return the seconds to sum `rows` of count tables and to train 250 k merges on `pieces`, and the peak bytes."""
    runs = result("bpe_train")["scaling"]
    most = max(map(int, runs))
    whole, _ = slope(runs, "processor_seconds")
    merging, of_merging = slope(runs, "processor_seconds_training_only")
    peak, of_peak = slope(runs, "peak_megabytes")
    more = pieces - most
    return (whole - merging) / most * rows, merging + of_merging * more, (peak + of_peak * more) * 1e6


def page() -> str:
    """Return the text of the page."""
    count, encode, index, blend = (result(name) for name in ("tokenizer_count", "encode", "index", "blend"))
    megabytes = TEXT_BYTES / 1e6
    counting = megabytes / count["megabytes_per_second_one_core"]["job_all_bloom"]["median"]
    jobs = encode["jobs"]
    beyond = encode["job_megabytes_per_second_beyond_the_smaller"][-1]
    start = jobs[-1]["seconds"] - jobs[-1]["megabytes"] / beyond
    encoding = megabytes / beyond + start * LARGEST.shards
    largest = max(index["runs"], key=lambda run: run["documents"])
    pieces = TokenizerConfig().max_pieces
    summing, merging, peak = training(LARGEST.shards * PIECES_A_SHARD, pieces)
    rows = [
        (
            "`tokenizer count`",
            f"{LARGEST.shards:,} shards",
            hours(counting),
            f"{size(LARGEST.shards * PIECES_A_SHARD * 20)} of tables",
            "1 GiB and the shard's unique pieces",
        ),
        ("`tokenizer train`", "1 job", hours(summing + merging), "20 MB", f"{size(peak)} at `max_pieces` {pieces:,}"),
        (
            "`encode`",
            f"{LARGEST.shards:,} shards",
            hours(encoding),
            f"{size(TOKENS * TOKEN_BYTES)} `.bin`, {size(LARGEST.documents * 20)} `.idx`",
            f"{jobs[-1]['peak_megabytes']} MB",
        ),
        (
            "`index build`",
            "1 job",
            hours(largest["seconds"]),
            f"{size(largest['array_bytes'])} of arrays",
            size(largest["peak_rss_bytes"]),
        ),
        ("`index verify`", "1 job", "limited by the disk", "nothing", "4 bytes a document"),
    ]
    table = lines(rows)
    trained = lines(
        (f"{int(held):,}", f"{run['seconds']:.0f} s", f"{run['seconds_training_only']:.0f} s", mb(run))
        for held, run in result("bpe_train")["scaling"].items()
    )
    encoded = lines(
        (f"{job['megabytes']:.0f} MB", f"{job['tokens']:,}", f"{job['seconds']:.1f} s", mb(job)) for job in jobs
    )
    built = lines(
        (f"{run['documents']:,}", f"{run['samples']:,}", f"{run['seconds']:.1f} s", size(run["peak_rss_bytes"]))
        for run in sorted(index["runs"], key=lambda run: run["documents"])
    )
    blended = lines(
        (
            name,
            *(f"{run[whose]['seconds']:.1f} s" for whose in ("ours", "megatron")),
            size(run["ours"]["peak_rss_bytes"]),
        )
        for name, run in blend["runs"].items()
    )
    text, documents, samples = size(TEXT_BYTES), LARGEST.documents / 1e6, SAMPLES / 1e6
    many = f"{LARGEST.shards:,} shards of 256 MiB, {LARGEST.shards_a_job} per SLURM job"
    return f"""# How large a tokenizer's corpus and an index may be

**Assumes:** you plan a training of billions of tokens and know the [tokenizer](how-to/tokenizer.md) and the
[index](how-to/index.md).

`python bench/tokens_scale.py` generates this page from `bench/results/`. Times are for one core of a busy machine.

## 341.6 B tokens: {text} of text in {documents:.0f} M documents, {samples:.1f} M samples of {SEQUENCE_LENGTH:,}

| step | tasks | core time | writes | memory of a job |
|---|---|---:|---:|---:|
{table}

- Counting and encoding run one task for each shard ({many}).
  On 100 cores, counting takes {hours(counting / 100)} and encoding {hours(encoding / 100)}.
- Training does not read text. It takes {hours(summing)} to sum the tables' rows with sorted runs on the disk, and
  {hours(merging)} to merge. Of more than `max_pieces` different pieces, it keeps the most frequent.
- The index is built before a job requests GPUs. Training maps its arrays into memory and reads a few pages per sample.

## While the input grows

Training 250 k merges from counts:

| unique pieces | whole | merging | memory |
|---:|---:|---:|---:|
{trained}

Encoding one shard with a vocabulary of {encode["vocabulary"]:,}, of which {start:.1f} s are for loading the tokenizer:

| text | tokens | time | memory |
|---:|---:|---:|---:|
{encoded}

Building an index:

| documents | samples | time | memory |
|---:|---:|---:|---:|
{built}

Blending, compared with Megatron-core's greedy blend in the same run:

| | ours | Megatron-core | memory |
|---|---:|---:|---:|
{blended}
"""


if __name__ == "__main__":
    print(page(), end="")
