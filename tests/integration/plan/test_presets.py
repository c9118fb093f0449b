"""Test that every shipped preset can be loaded, planned and shown, and that its page in docs/models is up to date."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from repository import ROOT

from bloomery.checks.load_config import load_config
from planner.answers import answers
from planner.plan_figure import figure
from planner.plan_page import page

pytestmark = pytest.mark.slow

PRESETS = sorted((ROOT / "config/models").glob("*.yaml"))
NAMES = {
    *("tr1-13b", "tr8-104b", "tr8-104b-curriculum", "bert-4l", "bert-large", "bert-85l", "t5-small"),
    *(f"tr11-{size}" for size in ("350m", "760m", "1b3", "2b5", "6b3", "176b")),
}
KEYS = {
    *("parameters", "iterations", "train_samples", "train_tokens", "world_size", "tensor_parallel"),
    *("pipeline_parallel", "data_parallel", "weights_bytes", "checkpoint_bytes", "memory_bytes_per_gpu"),
    *("bubble_fraction", "days", "node_hours"),
}


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "plan", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_every_published_training_has_its_preset() -> None:
    assert {path.stem for path in PRESETS} == NAMES


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_is_short_planned_and_documented(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 75
    config = load_config(path)
    found = answers(config)
    assert config.name == path.stem
    assert found.parameters == found.parameters_counted
    assert found.fits, "a training that was run must fit into memory"
    for key in found.assumed:
        value = yaml.safe_load(text)
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        assert value is not None or key == "plan.pue", (
            f"the plan lists {key} as assumed, but the preset does not set it"
        )
    folder = ROOT / "docs/models"
    assert (folder / f"{path.stem}.md").read_text() == page(
        path.stem, f"../../config/models/{path.name}", config, found
    )
    assert (folder / f"{path.stem}.svg").read_text() == figure(config, found)
    ElementTree.parse(folder / f"{path.stem}.svg")


@pytest.mark.slow
def test_the_picture_of_the_simulation_is_up_to_date(tmp_path: Path) -> None:
    picture = tmp_path / "simulation.svg"
    done = plan("simulate", "config/models/tr11-176b.yaml", "--figure", str(picture))
    assert done.returncode == 0
    assert picture.read_bytes() == (ROOT / "docs/models/simulation.svg").read_bytes()


@pytest.mark.parametrize("name", ["tr11-176b", "tr8-104b-curriculum", "t5-small"])
def test_plan_prints_json_and_tables(name: str) -> None:
    done = plan(f"config/models/{name}.yaml", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value.keys() >= KEYS
    assert value["memory_bytes_per_gpu"].keys() == {"first", "middle", "last"}
    assert value["days"] > 0
    done = plan(f"config/models/{name}.yaml")
    assert done.returncode == 0
    assert "Memory of a GPU" in done.stdout
    assert f"{value['parameters']:,}" in done.stdout
    assert f"next: bloomery plan config/models/{name}.yaml --at" in done.stderr


def test_planning_imports_neither_torch_nor_deepspeed() -> None:
    program = (
        "import sys; from bloomery.cli import app\n"
        "try: app(['plan', 'config/models/tr11-176b.yaml'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'deepspeed', 'transformers', 'numpy'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "set()"


@pytest.mark.parametrize("at", ["samples=9841584", "tokens=20155564032", "samples=9_841_999"])
def test_a_state_is_found_by_samples_and_tokens(at: str) -> None:
    value = json.loads(plan("config/models/tr11-176b.yaml", "--at", at, "--json").stdout)
    assert value["iteration"] == 12_695


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", "iteration=115312"), "covers iterations 0 to 115311"),
        (("--at", "epoch=1"), "expected: iteration=N, samples=N or tokens=N"),
        (("--at", "iteration=-1"), "expected: iteration=N"),
        (("--at", "iteration=5", "--log-line"), "needs --seconds-per-iteration, --loss, --grad-norm, and"),
        (("--log-line",), "need --at iteration=N"),
        (("--suggest", "--memory", "much"), "expected: a size"),
        (("--memory", "80GiB"), "need --suggest"),
        (("--gpus", "64"), "--gpus needs --suggest"),
        (("--suggest", "--at", "iteration=5"), "--suggest cannot be combined"),
        (("--at", "iteration=5", "--seconds-per-iteration", "inf"), "Invalid value"),
        (("--suggest", "--gpus", "1000000000"), "Invalid value"),
    ],
)
def test_wrong_options_are_usage_errors(words: tuple[str, ...], said: str) -> None:
    done = plan("config/models/tr11-176b.yaml", *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.skipif(
    shutil.which("script") is None, reason="the program `script`, which makes a terminal, is not installed"
)
@pytest.mark.parametrize("words", ["", " --suggest"])
def test_no_column_of_a_report_is_wrapped_at_80_columns(words: str) -> None:
    shown = f"stty cols 80; {sys.executable} -m bloomery.cli plan config/models/tr11-176b.yaml{words}"
    done = subprocess.run(
        ["script", "-qec", shown, "/dev/null"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80", "TERM": "xterm"},
    )
    text = re.sub("\x1b[^m]*m", "", done.stdout)
    assert done.returncode == 0
    for whole in (
        ("recompute", "hardware", "bubble") if words else ("activations", "42.2 GiB", "fits in 95 % of 80.0 GiB")
    ):
        assert re.search(rf" {re.escape(whole)} ", text), whole
    assert max(len(line) for line in text.splitlines() if "│" in line or "┃" in line) <= 80


@pytest.mark.slow
def test_a_page_names_the_file_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((ROOT / "config/models/t5-small.yaml").read_text())
    done = plan("page", str(tmp_path / "mine.yaml"), "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "`bloomery plan mine.yaml`" in (tmp_path / "mine.md").read_text()
    done = plan("page", str(tmp_path / "mine.yaml"), "--output", str(tmp_path / "mine.yaml"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    done = plan("page", str(tmp_path / "mine.yaml"), str(tmp_path / "x/mine.yaml"), "--output", str(tmp_path))
    assert done.returncode == 2
    assert "the same page: mine" in done.stderr
