"""Helpers of the benchmarks: read documents, bind to one core, time programs in turn, run the workflow, and print the
JSON result."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from data_prep.formats.shard import DOCUMENT_SCHEMA, TableWriter

ROOT = Path(__file__).parents[1]
CORPUS = Path(os.environ.get("BLOOMERY_CORPUS", ROOT.parent / "shared" / "corpus"))
"""Folder of the files `<language>.jsonl.zst`, with the fields `text`, `lang` and `id`."""


class Document(NamedTuple):
    """One row of the corpus."""

    id: str
    language: str
    text: str


@dataclass(frozen=True)
class Contender:
    """An action to time. One call of `run` processes `megabytes` of text (10^6 bytes of UTF-8)."""

    megabytes: float
    run: Callable[[], object]


class Floor(NamedTuple):
    """A measured figure and the least value that it must have."""

    what: str
    measured: float
    floor: float


def parser(description: str | None, *, of_texts: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark.

    With `of_texts`, there is also an option to read only a part of each file.
    """
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--languages",
        nargs="+",
        default=languages(),
        help="codes of the languages whose corpus files are read; default: all",
    )
    if of_texts:
        made.add_argument(
            "--bytes-per-language",
            type=int,
            default=1 << 62,
            help="bytes of text to read from each corpus file, evenly spread over the file",
        )
    made.add_argument("--repeats", type=int, default=5)
    return made


def languages() -> list[str]:
    """Return the languages of the corpus files."""
    return sorted(path.name.removesuffix(".jsonl.zst") for path in CORPUS.glob("*.jsonl.zst"))


def one_core() -> None:
    """Bind this process and its children to one processor core, and limit arrow to one thread."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def read_documents(names: Iterable[str], limit_bytes: int) -> list[Document]:
    """Read documents with about `limit_bytes` of text of each language, evenly spread over the language's file."""
    found: list[Document] = []
    for name in names:
        with zstandard.open(CORPUS / f"{name}.jsonl.zst", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        found += evenly([Document(row["id"], row["lang"], row["text"]) for row in rows], limit_bytes)
    return found


def evenly(documents: list[Document], limit_bytes: int) -> list[Document]:
    """Return documents with about `limit_bytes` of text in total, evenly spread over `documents`."""
    taken = 0
    found = []
    for number, document in enumerate(documents):
        if taken * len(documents) <= limit_bytes * number:
            found.append(document)
            taken += len(document.text.encode())
    return found


def megabytes(documents: Iterable[Document]) -> float:
    """Return the size of the text in units of 10^6 bytes."""
    return sum(len(document.text.encode()) for document in documents) / 1e6


def batches(documents: list[Document], rows: int = 2048) -> list[pa.RecordBatch]:
    """Return the documents as record batches like those that jobs read from a shard."""
    made = []
    for start in range(0, len(documents), rows):
        ids, codes, texts = zip(*documents[start : start + rows], strict=True)
        columns = [ids, ["bench"] * len(ids), codes, texts, [""] * len(ids)]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, DOCUMENT_SCHEMA.types, strict=True)]
        made.append(pa.record_batch(arrays, schema=DOCUMENT_SCHEMA))
    return made


def write_shard(path: Path, found: list[pa.RecordBatch]) -> None:
    """Write the documents as a raw shard."""
    with TableWriter.open(path, DOCUMENT_SCHEMA) as writer:
        for batch in found:
            writer.write(batch)
    writer.manifest(kind="documents", inputs={}, parameters="", counts={})


def configuration(sources: list[dict[str, Any]] | None = None, root: str = "runs", **corpus: Any) -> RunConfig:
    """Return the configuration of the run `<root>/bench` with these settings of its section `corpus`."""
    nowhere = {"name": "bench", "kind": "jsonl", "paths": ["nowhere.jsonl"], "language": "en"}
    small = {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8}
    training = {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}}
    given = {"name": "bench", "root": root, "sources": sources or [nowhere], "corpus": corpus}
    return validate_config(given | {"model": small, "training": training})


def in_turn(contenders: dict[str, Contender], repeats: int) -> dict[str, list[float]]:
    """Run the contenders in turn, `repeats` + 1 times, and return the MB/s of each in each round except the first.

    Seconds are processor time, summed over all threads of the process. Other load of the machine therefore hardly
    changes the figures.
    """
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(repeats + 1):
        for name, contender in contenders.items():
            start = time.process_time()
            contender.run()
            if number:
                speeds[name].append(contender.megabytes / (time.process_time() - start))
        if not number:
            # Exclude imported objects, mostly of the peer's modules, from garbage collection, as `bloomery corpus
            # ingest` does.
            gc.collect()
            gc.freeze()
    return speeds


def spread(values: list[float], digits: int = 2) -> dict[str, float]:
    """Return the median, the least and the greatest of `values`, rounded to `digits` decimal places."""
    named = {"median": median(values), "least": min(values), "greatest": max(values)}
    return {name: round(value, digits) for name, value in named.items()}


def times_faster(speeds: dict[str, list[float]], ours: str, peer: str) -> list[float]:
    """Return the ratio of the speeds of two contenders for each round."""
    return [one / other for one, other in zip(speeds[ours], speeds[peer], strict=True)]


def finish(benchmark: str, result: dict[str, Any], floors: list[Floor], *, same_counts: bool = True) -> int:
    """Print the JSON result. Return 1 if a figure is below its required minimum or `same_counts` is false, else 0."""
    held = [floor.measured >= floor.floor for floor in floors]
    passed = same_counts and all(held)
    named = [
        {"what": floor.what, "measured": round(floor.measured, 2), "floor": floor.floor, "held": ok}
        for floor, ok in zip(floors, held, strict=True)
    ]
    return report(benchmark, {**result, "floors": named, "machine": machine()}, passed=passed)


def report(benchmark: str, result: dict[str, Any], *, passed: bool) -> int:
    """Print the JSON result. Return the exit code: 0 if the benchmark passed, otherwise 1."""
    print(json.dumps({"benchmark": benchmark, **result, "passed": passed}, indent=2))
    return 0 if passed else 1


def workflow_command(folder: Path, configuration: Path, *targets: str) -> list[str]:
    """Return the command that runs the workflow in `folder` with the local profile.

    Without `targets`, the command runs all stages.
    """
    return [
        *(sys.executable, "-m", "snakemake", *targets, "--snakefile", str(ROOT / "Snakefile")),
        *("--directory", str(folder), "--profile", str(ROOT / "workflow/profiles/local")),
        *("--configfile", str(configuration)),
    ]


def workflow_environment() -> dict[str, str]:
    """Return this process's environment, with the programs of this Python first in the path."""
    return os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def machine() -> dict[str, Any]:
    """Return facts of the machine and its load."""
    model = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": model[0] if model else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
