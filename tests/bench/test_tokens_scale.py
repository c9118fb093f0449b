"""The page about 341.6 B tokens follows from what the benches measured."""

import json
import subprocess
import sys

from repository import ROOT


def test_the_page_is_what_the_arithmetic_says_of_what_was_measured() -> None:
    made = subprocess.run([sys.executable, ROOT / "bench/tokens_scale.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs/tokens-scale.md").read_text()


def test_every_bench_of_tokenizer_and_index_held_its_floors() -> None:
    for name in ("tokenizer_count", "bpe_train", "encode", "index", "blend"):
        assert json.loads((ROOT / f"bench/results/{name}.json").read_text())["passed"], name
