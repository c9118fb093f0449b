"""Write docs/benchmarks.md, the page of all benchmarks, from the files in bench/results/.

    python bench/benchmark_page.py > docs/benchmarks.md

Every number on the page comes from a result file. A benchmark may have several result files, one for each condition of
its peer: `corpus_filters.json` (words split by spaCy) and `corpus_filters-regular_expression.json`. Each file gives its
own row. A benchmark without a result file is listed as not measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import _benchmark_rows as rows
import _fault_rows as faults
from _support import ROOT

RESULTS = ROOT / "bench/results"
NOT_HERE = {"old_bugs"}
"""Results that are not on the page. `bench/refactor/old_bugs.py` makes the result `old_bugs`."""


def result_files(folder: Path, name: str) -> list[Path]:
    """Return the result files of a benchmark, one for each condition of its peer; the unnamed condition comes first."""
    return [path for path in (folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json"))) if path.is_file()]


SECTIONS: dict[str, dict[str, Callable[[rows.Result], Iterator[rows.Row]]]] = {
    "The workflow and the commands": {
        "workflow": rows.workflow,
        "startup": rows.startup,
        "init_estimate": rows.init_estimate,
        "first_token": rows.first_token,
        "status": rows.status,
        "sync": rows.sync,
    },
    "Corpus": {
        "text_kernel": rows.text_kernel,
        "corpus_ingest": rows.corpus_ingest,
        "corpus_filters": rows.corpus_filters,
        "corpus_langid": rows.corpus_langid,
        "langid_accuracy": rows.langid_accuracy,
        "corpus_minhash": rows.corpus_minhash,
        "corpus_exact": rows.corpus_exact,
        "corpus_memory": rows.corpus_memory,
    },
    "Tokenizer and index": {
        "tokenizer_count": rows.tokenizer_count,
        "bpe_train": rows.bpe_train,
        "encode": rows.encode,
        "index": rows.index,
        "blend": rows.blend,
    },
    "Training and export": {
        "training_speed": rows.training_speed,
        "training_overhead": rows.training_overhead,
        "save_comparison": rows.save_comparison,
        "training_layouts": rows.training_layouts,
        "planned_sizes": rows.planned_sizes,
        "divergence": rows.divergence,
        "dropout": rows.dropout,
        "lamb": rows.lamb,
        "export": rows.export,
    },
    "Faults and damaged files": {
        "last_good_result": faults.last_good_result,
        "hostile_edits": faults.hostile_edits,
        "non_finite": faults.non_finite,
        "crashes": faults.crashes,
        "chaos": faults.chaos,
        "segment_gap": faults.segment_gap,
        "alerts": faults.alerts,
        "fuzz": faults.fuzz,
    },
}
"""Benchmarks by section of the page. A benchmark's name is that of its program and of its result files."""


def section(title: str, benchmarks: dict[str, Callable[[rows.Result], Iterator[rows.Row]]], folder: Path) -> str:
    """Return a section of the page: one table. A benchmark without results has no row."""
    lines = ["| claim | limit | measured | peer and its conditions | results |", "|---|---|---|---|---|"]
    for name, rows_of in benchmarks.items():
        for path in result_files(folder, name):
            for row in rows_of(json.loads(path.read_text())):
                cells = (*row, f"[{path.stem}](../bench/results/{path.name})")
                lines.append(f"| {' | '.join(cells)} |")
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def machines(folder: Path) -> str:
    """Return a sentence about the machines that the result files record."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    recorded = [each["machine"] for each in found if "machine" in each]
    kinds = sorted({f"{each['processor']}, {each['cores']} cores, Python {each['python']}" for each in recorded})
    loads = [each["load_average"] for each in recorded]
    return (
        f"Machine: {'; '.join(kinds)}. Other work ran on it: the load average was {min(loads):.1f} to {max(loads):.1f}."
    )


def page(folder: Path = RESULTS) -> str:
    """Return the page, from the result files in `folder`."""
    missing = [f"`bench/{name}.py`" for part in SECTIONS.values() for name in part if not result_files(folder, name)]
    gpu = sorted((folder / "gpu").glob("*.json"))
    if not gpu:
        missing.append("`bench/gpu/run.py` (needs a GPU; [how to run it](how-to/training.md#measure-on-a-gpu))")
    absent = f"\nNot measured, because `bench/results/` holds no result: {', '.join(missing)}.\n" if missing else ""
    sections = "\n".join(section(title, part, folder) for title, part in SECTIONS.items())
    links = ", ".join(f"[{path.stem}](../bench/results/gpu/{path.name})" for path in gpu)
    on_gpu = f"\n## GPU\n\nResults of `bench/gpu/run.py`: {links}.\n" if gpu else ""
    return f"""# Benchmarks

<!-- Generated by `python bench/benchmark_page.py`. Do not edit; a test compares the page with the program. -->

**Assumes:** you want to know how fast Bloomery is and against what it was measured, and which faults it survives. Each
program in `bench/` states its claim and its peer in its first lines and prints JSON. `make bench` runs them.

{machines(folder)}
Speeds of the corpus programs are MB (10^6 bytes of UTF-8 text) per second of processor time. A ratio is a median, with
the smallest and greatest ratio of all rounds. Peers run on the same texts in turn with Bloomery.
{absent}
A peer's speed depends on its conditions. datatrove splits words with spaCy if spaCy is installed. Otherwise, the
programs give it a regular expression, which is faster. The page shows each condition that has
a result file. The file of a second condition has a suffix, as in `corpus_filters-regular_expression.json`.

{sections}{on_gpu}
The pages [How large a corpus may be](corpus-scale.md) and [How large a tokenizer's corpus and an index may
be](tokens-scale.md) compute the cost of BLOOM's corpus from these results.
"""


if __name__ == "__main__":
    print(page(), end="")
