"""Test the planned state of an iteration."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from repository import ROOT, TR11_LOG


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "plan", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_a_planned_state_and_its_log_line_equal_the_published_line() -> None:
    words = ("config/models/tr11-176b.yaml", "--at", "iteration=12695", "--seconds-per-iteration", "105.22")
    value = json.loads(plan(*words, "--json").stdout)
    assert value["consumed_samples"] == 9_841_584
    assert value["consumed_tokens"] == 20_155_564_032
    assert value["global_batch_size"] == 2048
    assert f"{value['learning_rate']:.3E}" == "5.969E-05"
    assert value["samples_per_second"] == pytest.approx(19.463, abs=0.01)
    assert value["tflops_hardware"] == pytest.approx(149.02, abs=0.01)
    assert value["mfu"] == pytest.approx(0.358, abs=0.001)
    line = plan(*words, "--log-line", "--loss", "2.463556", "--grad-norm", "0.174").stdout.rstrip("\n")
    published = TR11_LOG.read_text().splitlines()[0]
    # Our line omits the rank and the columns without a measurement. Its samples per second are computed from the
    # rounded time.
    shortened = re.sub(r" num zeros: .*? nan iterations:   0 \|", "", published.removeprefix(" [default7]:"))
    assert line == shortened.replace("19.463", "19.464")
