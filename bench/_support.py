"""What the benchmarks of the corpus share: documents, one core, contenders in turn, one JSON that states its floors."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
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
"""Folder of `<language>.jsonl.zst` with the fields `text`, `lang`, `id`."""


class Document(NamedTuple):
    """One row of the corpus."""

    id: str
    language: str
    text: str


@dataclass(frozen=True)
class Contender:
    """Something to time: one call of `run` goes through `megabytes` (10^6 bytes of UTF-8)."""

    megabytes: float
    run: Callable[[], object]


class Floor(NamedTuple):
    """A figure that must not be lower."""

    what: str
    measured: float
    floor: float


def parser(description: str | None, *, of_texts: bool = True) -> argparse.ArgumentParser:
    """Options of every benchmark; `of_texts`: one that can take a part of each file."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--languages", nargs="+", default=languages(), help="files of the corpus; all by default")
    if of_texts:
        made.add_argument("--bytes-per-language", type=int, default=1 << 62, help="text read of each, evenly spread")
    made.add_argument("--repeats", type=int, default=5)
    return made


def languages() -> list[str]:
    """Languages of the corpus' files."""
    return sorted(path.name.removesuffix(".jsonl.zst") for path in CORPUS.glob("*.jsonl.zst"))


def one_core() -> None:
    """Bind this process and its children to one processor, and arrow to one thread."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def read_documents(names: Iterable[str], limit_bytes: int) -> list[Document]:
    """Documents of the languages, of each about `limit_bytes` of text, evenly spread over its file."""
    found: list[Document] = []
    for name in names:
        with zstandard.open(CORPUS / f"{name}.jsonl.zst", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        found += evenly([Document(row["id"], row["lang"], row["text"]) for row in rows], limit_bytes)
    return found


def evenly(documents: list[Document], limit_bytes: int) -> list[Document]:
    """Documents of about `limit_bytes` of text in all, evenly spread."""
    taken = 0
    found = []
    for number, document in enumerate(documents):
        if taken * len(documents) <= limit_bytes * number:
            found.append(document)
            taken += len(document.text.encode())
    return found


def megabytes(documents: Iterable[Document]) -> float:
    """10^6 bytes of text."""
    return sum(len(document.text.encode()) for document in documents) / 1e6


def batches(documents: list[Document], rows: int = 2048) -> list[pa.RecordBatch]:
    """The documents as the jobs read them from a shard."""
    made = []
    for start in range(0, len(documents), rows):
        ids, codes, texts = zip(*documents[start : start + rows], strict=True)
        columns = [ids, ["bench"] * len(ids), codes, texts, [""] * len(ids)]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, DOCUMENT_SCHEMA.types, strict=True)]
        made.append(pa.record_batch(arrays, schema=DOCUMENT_SCHEMA))
    return made


def write_shard(path: Path, found: list[pa.RecordBatch]) -> None:
    """The documents as a raw shard."""
    with TableWriter.open(path, DOCUMENT_SCHEMA) as writer:
        for batch in found:
            writer.write(batch)
    writer.manifest(kind="documents", inputs={}, parameters="", counts={})


def configuration(sources: list[dict[str, Any]] | None = None, root: str = "runs", **corpus: Any) -> RunConfig:
    """A run's configuration, the run being `<root>/bench`, with these settings of its section `corpus`."""
    nowhere = {"name": "bench", "kind": "jsonl", "paths": ["nowhere.jsonl"], "language": "en"}
    small = {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8}
    training = {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}}
    given = {"name": "bench", "root": root, "sources": sources or [nowhere], "corpus": corpus}
    return validate_config(given | {"model": small, "training": training})


def in_turn(contenders: dict[str, Contender], repeats: int) -> dict[str, list[float]]:
    """MB/s of each contender in each round; they take turns, and a first round does not count.

    Per second of processor time of the whole process, all of its threads: what else runs on the machine takes time off
    the clock and not off this figure.
    """
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(repeats + 1):
        for name, contender in contenders.items():
            start = time.process_time()
            contender.run()
            if number:
                speeds[name].append(contender.megabytes / (time.process_time() - start))
        if not number:
            # What was imported, a peer's modules above all, is no garbage; `bloomery corpus ingest` does so, too.
            gc.collect()
            gc.freeze()
    return speeds


def spread(values: list[float], digits: int = 2) -> dict[str, float]:
    """Median, least and greatest."""
    named = {"median": median(values), "least": min(values), "greatest": max(values)}
    return {name: round(value, digits) for name, value in named.items()}


def times_faster(speeds: dict[str, list[float]], ours: str, peer: str) -> list[float]:
    """Ratio of two contenders, round by round."""
    return [one / other for one, other in zip(speeds[ours], speeds[peer], strict=True)]


def finish(benchmark: str, result: dict[str, Any], floors: list[Floor], *, same_counts: bool = True) -> int:
    """Print the JSON; returns the exit code: 1 when a floor or the counts do not hold."""
    held = [floor.measured >= floor.floor for floor in floors]
    passed = same_counts and all(held)
    named = [
        {"what": floor.what, "measured": round(floor.measured, 2), "floor": floor.floor, "held": ok}
        for floor, ok in zip(floors, held, strict=True)
    ]
    print(
        json.dumps(
            {"benchmark": benchmark, **result, "floors": named, "machine": machine(), "passed": passed}, indent=2
        )
    )
    return 0 if passed else 1


def machine() -> dict[str, Any]:
    """Where it was measured, and how busy that was."""
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
