"""Test that docs/benchmarks.md equals the page that is generated from the files in bench/results/."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys

import pytest
from repository import ROOT

RESULTS = ROOT / "bench/results"


@pytest.fixture(scope="module")
def program():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("benchmark_page")


@pytest.fixture
def results(tmp_path):
    return shutil.copytree(RESULTS, tmp_path / "results")


def test_the_page_in_the_repository_is_up_to_date() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "bench/benchmark_page.py"], capture_output=True, text=True, check=True
    )
    assert made.stdout == (ROOT / "docs/benchmarks.md").read_text(), (
        "python bench/benchmark_page.py > docs/benchmarks.md"
    )


def test_the_page_shows_every_result_file(program) -> None:
    text = program.page()
    for path in RESULTS.rglob("*.json"):
        shown = f"../bench/results/{path.relative_to(RESULTS)}" in text
        assert shown != (path.stem in program.NOT_HERE), path.name


@pytest.mark.parametrize("name", ["corpus_filters", "corpus_minhash"])
def test_each_condition_of_a_peer_has_a_row_of_its_own(program, results, name) -> None:
    for path in results.glob(f"{name}*.json"):
        path.unlink()
    measured = json.loads((RESULTS / f"{name}.json").read_text())
    for file, words, ratio in ((name, "spaCy", 86.54), (f"{name}-other", "a regular expression", 34.12)):
        measured["peer"]["words"] = words
        measured["times_faster"] = {"median": ratio, "least": ratio - 1, "greatest": ratio + 1}
        (results / f"{file}.json").write_text(json.dumps(measured))
    rows = [line for line in program.page(results).splitlines() if line.startswith("|") and f"/{name}" in line]
    assert len(rows) == 2
    assert "words split by spaCy" in rows[0]
    assert "86.5 times (85.5 to 87.5)" in rows[0]
    assert "words split by a regular expression" in rows[1]
    assert "34.1 times (33.1 to 35.1)" in rows[1]


def test_a_benchmark_without_a_result_is_named_as_not_measured(program, results) -> None:
    assert "`bench/encode.py`" not in program.page(results)
    (results / "encode.json").unlink()
    text = program.page(results)
    assert "Not measured, because `bench/results/` holds no result" in text
    assert "`bench/encode.py`" in text
    assert "encoding with" not in text


def test_a_changed_result_changes_the_page(program, results) -> None:
    measured = json.loads((results / "startup.json").read_text())
    measured["seconds"]["bloomery --help"]["median"] = 0.31
    (results / "startup.json").write_text(json.dumps(measured))
    assert "| `bloomery --help` | 0.4 s | 0.31 s |" in program.page(results)
