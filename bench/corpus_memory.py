"""Claim: with default settings, no corpus job uses more than 1 GiB of memory when the input grows 4 and 16 times.

    python bench/corpus_memory.py > bench/results/corpus_memory.json

The program runs the target `corpus` of the real workflow, including decontamination, on `--megabytes` of text times
each of `--scales`, in a temporary folder below `--folder`. 16 x 100 MB take about 5 GB of disk and 15 minutes on one
core. Instead of `bloomery`, the rules call a small program, which starts the real `bloomery` and asks the kernel for
the peak resident memory and the processor time of each job. The result states for each job and scale the number of
jobs, the largest peak in MiB, and the total processor seconds. It also states the bytes of the written tables and the
numbers of documents in and out. `data_prep/corpus/scale.py` uses these figures to estimate a large corpus.

The text is that of the benchmark corpus (the folder of `<language>.jsonl.zst` that BLOOMERY_CORPUS names, or
../shared/corpus beside the project), repeated with changes. In each repetition, one of 20 documents is an exact copy
and one differs from the original in one word. In the other documents, every fourth word (or character in languages
without spaces) is replaced by another word of the document. These documents are not duplicates, and their language does
not change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import yaml
import zstandard
from _support import ROOT, Document, Floor, evenly, finish, languages, read_documents

from bloomery.config.corpus import CorpusConfig

CEILING_MIB = 1024
GROWTH = 0.15
GROWTH_MIB = 96
"""Memory is flat if the peak at the largest scale exceeds that at the smallest by at most GROWTH (a share of the
smaller peak) or GROWTH_MIB, whichever is more.

96 MiB are about three row groups. A job may hold only one row group at the smallest scale, but three at the others: one
that is read, one that is written and one in the allocator.
"""
BOUNDED = ("corpus dedup candidates", "corpus dedup connect", "corpus dedup resolve")
"""Jobs that process the whole corpus. Their memory counts as flat even if it grows by up to `dedup.memory_bytes`."""
UNSPACED = ("zhs", "zht", "ja", "th")
FILE_MEGABYTES = 100
EVALUATION_ITEMS = 200

SHIM = """#!{python} -IS
import itertools, json, os, sys
pid = os.posix_spawn({python!r}, [{python!r}, "-m", "bloomery.cli", *sys.argv[1:]], os.environ)
_, status, used = os.wait4(pid, 0)
verb = " ".join(itertools.takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
line = json.dumps({{"job": verb, "peak": used.ru_maxrss * 1024, "seconds": used.ru_utime + used.ru_stime}})
with open({log!r}, "a") as log:
    log.write(line + "\\n")
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""


def varied(documents: list[Document]) -> Iterator[Document]:
    """Yield the documents and then, endlessly, variants of them."""
    for round_number in count():
        for number, document in enumerate(documents):
            yield document if not round_number else _variant(document, round_number, number)


def _variant(document: Document, round_number: int, number: int) -> Document:
    apart = "" if document.language in UNSPACED else " "
    words = document.text.split(" ") if apart else list(document.text)
    rng = np.random.default_rng([round_number, number])
    kind = (number + round_number) % 20
    if kind == 0:
        places = np.empty(0, np.int64)
    elif kind == 1:
        places = rng.integers(0, len(words), 1)
    else:
        places = np.arange(int(rng.integers(0, 4)), len(words), 4)
    for place, other in zip(places.tolist(), rng.integers(0, len(words), len(places)).tolist(), strict=True):
        words[place] = words[other]
    return Document(f"{document.id}#{round_number}", document.language, apart.join(words))


def write_source(folder: Path, documents: list[Document], limit_bytes: float) -> int:
    """Write files of FILE_MEGABYTES of text each, and return the total number of bytes of text."""
    folder.mkdir()
    stream = varied(documents)
    total = 0
    for number in count():
        if total >= limit_bytes:
            return total
        target = min(limit_bytes, total + FILE_MEGABYTES * 1e6)
        with zstandard.open(folder / f"{number:03d}.jsonl.zst", "wt", encoding="utf-8") as file:
            while total < target:
                document = next(stream)
                row = {"id": document.id, "lang": document.language, "text": document.text}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                total += len(document.text.encode())
    raise AssertionError


def write_run(folder: Path, documents: list[Document], settings: dict[str, Any]) -> None:
    """Write the configuration, its evaluation texts, and the program that the rules call."""
    items = [
        {"text": document.text[len(document.text) // 2 :][:400]}
        for document in documents[:: len(documents) // EVALUATION_ITEMS + 1]
    ]
    (folder / "evaluation.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    source = {"name": "texts", "kind": "jsonl", "paths": [f"{folder}/texts/*"], "language_field": "lang"}
    config = {
        "name": "bench",
        "sources": [source | {"id_field": "id"}],
        "corpus": {"decontaminate": {"paths": [f"{folder}/evaluation.jsonl"]}} | settings,
        "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
        "training": {"train_samples": 1, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}},
        "publish": {"hub": False},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    program = folder / "measured"
    program.write_text(SHIM.format(python=sys.executable, log=str(folder / "jobs.jsonl")))
    program.chmod(0o755)


def run_workflow(folder: Path) -> None:
    """Run the target `corpus`, one job at a time."""
    # This shell function is named `bloomery`, so the rules call it instead of any program on PATH.
    environment = os.environ | {"BASH_FUNC_bloomery%%": f'() {{ {folder}/measured "$@"; }}'}
    command = [sys.executable, "-m", "snakemake", "corpus", "--snakefile", str(ROOT / "Snakefile"), "--profile",
               str(ROOT / "workflow/profiles/local"), "--cores", "1", "--directory", str(folder), "--configfile",
               str(folder / "run.yaml")]  # fmt: skip
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode:
        raise SystemExit(ended.stdout[-8000:])


def gather(folder: Path) -> dict[str, Any]:
    """Return the memory and time of the jobs, and the sizes of the tables that they wrote."""
    jobs: dict[str, dict[str, float]] = {}
    for line in (folder / "jobs.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["job"].startswith("summary"):
            continue
        job = jobs.setdefault(entry["job"], {"jobs": 0, "peak_mib": 0.0, "core_seconds": 0.0})
        job["jobs"] += 1
        job["peak_mib"] = round(max(job["peak_mib"], entry["peak"] / 2**20), 1)
        job["core_seconds"] = round(job["core_seconds"] + entry["seconds"], 2)
    corpus = folder / "runs/bench/corpus"
    left = Counter(texts=sum(path.stat().st_size for path in (folder / "texts").iterdir()))
    for path in sorted(corpus.rglob("*.parquet")):
        kind = path.relative_to(corpus).parts[0]
        # The duplicate search writes its tables into one folder. Their names contain the partition: `candidates-0`.
        left[path.stem.split("-")[0] if kind == "duplicates" else kind] += path.stat().st_size
    totals = json.loads((folder / "runs/bench/report/corpus.json").read_text())["totals"]
    counts = {name: totals[name] for name in ("documents_in", "bytes_in", "documents_out", "bytes_out")}
    return {"jobs": jobs, "bytes_left": dict(left), "counts": counts}


def measure_scale(folder: Path, documents: list[Document], limit_bytes: float, settings: dict[str, Any]) -> Any:
    with tempfile.TemporaryDirectory(dir=folder, prefix="corpus_memory-") as temporary:
        place = Path(temporary)
        size = write_source(place / "texts", documents, limit_bytes)
        write_run(place, documents, settings)
        run_workflow(place)
        return {"megabytes": round(size / 1e6, 1), **gather(place)}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scales", default="1,4,16")
    options.add_argument("--megabytes", type=float, default=100)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--corpus", type=json.loads, default={}, help="settings of the section `corpus`, as JSON")
    arguments = options.parse_args()
    documents = evenly(read_documents(languages(), 1 << 62), int(arguments.megabytes * 1e6))
    scales = [int(scale) for scale in arguments.scales.split(",")]
    found = {
        scale: measure_scale(arguments.folder, documents, arguments.megabytes * 1e6 * scale, arguments.corpus)
        for scale in scales
    }
    peaks = {
        job: {scale: found[scale]["jobs"][job]["peak_mib"] for scale in scales} for job in found[scales[-1]]["jobs"]
    }
    greatest = max(max(peak.values()) for peak in peaks.values())
    bound = CorpusConfig.model_validate(arguments.corpus).dedup.memory_bytes
    growing = [job for job, peak in peaks.items() if not flat(job, peak[scales[0]], peak[scales[-1]], bound)]
    counts = [found[scale]["counts"] for scale in scales]
    return finish(
        "corpus_memory",
        {
            "settings": arguments.corpus or "default",
            "megabytes": {scale: found[scale]["megabytes"] for scale in scales},
            "peak_mib": peaks,
            "dedup_memory_mib": bound // 2**20,
            "growing": growing,
            "by_scale": found,
        },
        [
            Floor(f"MiB between the largest peak and the limit of {CEILING_MIB} MiB", CEILING_MIB - greatest, 0),
            Floor("jobs whose memory is flat", len(peaks) - len(growing), len(peaks)),
        ],
        same_counts=all(0 < one["documents_out"] <= one["documents_in"] for one in counts),
    )


def flat(job: str, first: float, last: float, bound: int) -> bool:
    """Return whether the peak memory in MiB at the largest scale is about the same as that at the smallest scale."""
    filled = bound / 2**20 if job in BOUNDED else 0
    return last <= first + max(GROWTH * first, GROWTH_MIB, filled)


if __name__ == "__main__":
    sys.exit(main())
