"""Claim: each corpus stage reads at least its floor of text a second on one core, and its counts repeat exactly.

    python bench/corpus.py --languages ur yo sw ca > bench/results/corpus.json

Reads `<language>.jsonl.zst` (fields text, lang, id) of $BLOOMERY_CORPUS or ../shared/corpus, runs every stage in this
process on one thread in a temporary folder, and prints JSON: MB/s (10^6 bytes of the UTF-8 text that came in) and the
counts of each stage. Exit code 1 when a floor is not held.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bloomery.base.atomic import write_json
from bloomery.config import validate_config
from bloomery.config.stages import CleanStage, DedupStage, JudgeStage, MeasureStage, ingest_stage, stage_sections
from data_prep.corpus.catalogue import Catalogue
from data_prep.corpus.clean import clean
from data_prep.corpus.dedup.candidates import find_candidates
from data_prep.corpus.dedup.cluster import cluster
from data_prep.corpus.ingest import ingest
from data_prep.corpus.judge import judge
from data_prep.corpus.measure import measure

ROOT = Path(__file__).parents[1]
PART = "bench/00000"
FLOORS = {"ingest": 20.0, "measure": 8.0, "judge": 200.0, "candidates": 200.0, "cluster": 50.0, "clean": 25.0}
"""MB/s. `measure` holds all of it: kernel, MinHash, CLD2, content hash; CLD2 alone does about 20."""


def configuration(folder: Path, languages: list[str]) -> Any:
    source = {
        "name": "bench",
        "kind": "jsonl",
        "paths": [str(folder / f"{language}.jsonl.zst") for language in languages],
        "language_field": "lang",
        "id_field": "id",
    }
    small = {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8}
    training = {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}}
    return validate_config({"name": "bench", "sources": [source], "model": small, "training": training})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", nargs="+", default=["ar", "bn", "eu", "hi", "sw", "ur", "yo"])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    folder = Path(os.environ.get("BLOOMERY_CORPUS", ROOT.parent / "shared" / "corpus"))
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    config = configuration(folder, options.languages)
    stages: Any = stage_sections(config)
    seconds: dict[str, list[float]] = {name: [] for name in FLOORS}
    counts: list[dict[str, Any]] = []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stderr(io.StringIO()):
            counts.append(chain(Path(temporary), config, stages, seconds))
    megabytes = counts[0]["ingest"]["bytes"] / 1e6
    speeds = {name: megabytes / min(taken) for name, taken in seconds.items()}
    same = all(count == counts[0] for count in counts)
    passed = same and all(speeds[name] >= floor for name, floor in FLOORS.items())
    result = {
        "benchmark": "corpus",
        "languages": options.languages,
        "documents": counts[0]["ingest"]["documents"],
        "megabytes": round(megabytes, 1),
        "repeats": options.repeats,
        "megabytes_per_second_one_core": {name: round(speed, 1) for name, speed in speeds.items()},
        "floors": FLOORS,
        "counts": {name: {k: v for k, v in count.items() if isinstance(v, int)} for name, count in counts[0].items()},
        "counts_repeat": same,
        "passed": passed,
    }
    print(json.dumps(result, indent=2))
    return 0 if passed else 1


def chain(run: Path, config: Any, stages: Any, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Run every stage once; appends the seconds and returns the counts of the manifests."""
    corpus = run / "corpus"
    write_json(run / "parts.json", [PART])
    raw, measures, verdicts, cleaned, removed = (
        corpus / name / f"{PART}.parquet" for name in ("raw", "measures", "verdicts", "clean", "removed")
    )
    candidates, duplicates = (corpus / "duplicates" / f"{name}.parquet" for name in ("candidates-0", "duplicates"))
    counts: dict[str, Any] = {}

    def timed(name: str, action: Callable[[], dict[str, Any]]) -> None:
        start = time.perf_counter()
        manifest = action()
        seconds[name].append(time.perf_counter() - start)
        counts[name] = manifest["counts"] | {"rows": manifest["rows"]}

    source = config.sources[0]
    measuring: MeasureStage = stages["measure"]
    judging: JudgeStage = stages["judge"]
    deduplicating: DedupStage = stages["dedup"]
    cleaning: CleanStage = stages["clean"]
    timed("ingest", lambda: ingest(ingest_stage(config, source, 0, source.paths), raw, run / "quarantine.jsonl"))
    timed("measure", lambda: measure(measuring, raw, measures))
    timed("judge", lambda: judge(judging, measures, verdicts))
    catalogue = Catalogue(corpus, run / "parts.json")
    timed("candidates", lambda: find_candidates(deduplicating, catalogue, 0, candidates))
    timed("cluster", lambda: cluster(deduplicating, catalogue, [candidates], duplicates))
    timed("clean", lambda: clean(cleaning, raw, verdicts, duplicates, cleaned, removed))
    return counts


if __name__ == "__main__":
    sys.exit(main())
