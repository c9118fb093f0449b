"""Test that docs/tokens-scale.md, the page about 341.6 B tokens, agrees with the results of the benchmarks."""

import json
import subprocess
import sys

from repository import ROOT


def test_the_page_equals_the_arithmetic_on_the_measured_results() -> None:
    made = subprocess.run([sys.executable, ROOT / "bench/tokens_scale.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs/tokens-scale.md").read_text()


def test_all_benchmarks_of_tokenizer_and_index_passed() -> None:
    for name in ("tokenizer_count", "bpe_train", "encode", "index", "blend"):
        assert json.loads((ROOT / f"bench/results/{name}.json").read_text())["passed"], name
