"""Claim: `corpus ingest` reads at least 50 MB/s of text from jsonl.zst on one core.

    python bench/corpus_ingest.py > bench/results/corpus_ingest.json

The time covers the whole job: zstd, JSON, the checks of each row, ids, meta, and the Parquet shard (zstd) with its
digest and manifest. The peer is datatrove's JsonlReader with its ParquetWriter, which compresses with snappy. It runs
in turn with ours on the same files. The peer needs orjson, which is not a dependency of this project, and is skipped
if orjson is not installed. A MB is 10^6 bytes of text in UTF-8, without the JSON around it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import _datatrove
from _support import CORPUS, Contender, Floor, configuration, finish, in_turn, one_core, parser, spread, times_faster

from bloomery.config.run import RunConfig
from bloomery.orchestration.plan_parts import plan_parts
from bloomery.orchestration.stage_sections import ingest_stage
from data_prep.corpus.ingest import ingest

FLOOR_MEGABYTES_PER_SECOND = 50.0
HAS_PEER = importlib.util.find_spec("orjson") is not None


def run_ours(config: RunConfig, folder: Path) -> dict[str, int]:
    """Run the jobs, and return the sums of their manifests' counts."""
    source: Any = config.sources[0]
    total: Counter[str] = Counter()
    for number, portion in enumerate(plan_parts(source, config.corpus.ingest)):
        stage = ingest_stage(config, source, number, *portion)
        with contextlib.redirect_stderr(io.StringIO()):
            counts = ingest(stage, folder / f"{number:05d}.parquet", folder / f"{number:05d}.jsonl")["counts"]
        total.update({name: counts[name] for name in ("documents", "bytes", "bad_rows")})
    return dict(total)


def run_peer(languages: list[str], folder: Path) -> int:
    """Run datatrove's reader and writer, and return the number of documents."""
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import ParquetWriter

    _datatrove.quiet()
    documents = 0
    for language in languages:
        reader = JsonlReader(str(CORPUS), glob_pattern=f"{language}.jsonl.zst", compression="zstd")
        with contextlib.redirect_stderr(io.StringIO()):
            writer = ParquetWriter(str(folder / language))
            documents += sum(1 for _ in writer.run(reader.run()))
    return documents


def main() -> int:
    options = parser(__doc__, of_texts=False)
    arguments = options.parse_args()
    one_core()
    source = {
        "name": "bench",
        "kind": "jsonl",
        "paths": [str(CORPUS / f"{language}.jsonl.zst") for language in arguments.languages],
        "language_field": "lang",
        "id_field": "id",
    }
    config = configuration([source])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        counts = run_ours(config, folder)
        size = counts["bytes"] / 1e6
        contenders = {"ours": Contender(size, lambda: run_ours(config, folder))}
        if HAS_PEER:
            contenders["peer"] = Contender(size, lambda: run_peer(arguments.languages, folder / "peer"))
        speeds = in_turn(contenders, arguments.repeats)
        same = run_ours(config, folder) == counts
        peer: dict[str, Any] = {"peer": None}
        if HAS_PEER:
            peer = {
                "peer": {"name": _datatrove.describe()["name"] + " JsonlReader, ParquetWriter"},
                "times_faster": spread(times_faster(speeds, "ours", "peer")),
                "peer_documents": run_peer(arguments.languages, folder / "peer"),
            }
    return finish(
        "corpus_ingest",
        {
            **peer,
            "languages": len(arguments.languages),
            "megabytes": round(size, 1),
            "repeats": arguments.repeats,
            "megabytes_per_core_second": {name: spread(values) for name, values in speeds.items()},
            "counts": {"documents": counts["documents"], "bad_rows": counts["bad_rows"]},
        },
        [Floor("ours, MB/s", median(speeds["ours"]), FLOOR_MEGABYTES_PER_SECOND)],
        same_counts=same,
    )


if __name__ == "__main__":
    sys.exit(main())
