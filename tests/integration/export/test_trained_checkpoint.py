"""Test the export of a checkpoint that DeepSpeed wrote on tensor and pipeline ranks: the logits must not change."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from fabricated_training import make_run, stage
from safetensors.torch import load_file
from word_tokenizer import write_word_tokenizer

from bloomery.config.delivery import ExportConfig
from bloomery.config.stages import ExportStage
from bloomery.contracts.paths import RunPaths
from export.export_model import export_model

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SEGMENT = "segments/1.json"


def train(*arguments):
    code = "import sys; from bloomery.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_a_training_on_four_processes_is_exported_with_the_same_logits(tmp_path):
    paths = RunPaths(tmp_path / "run")
    trained = stage(tensor=2, pipeline=2, samples=32)
    config = make_run(paths.run, trained)
    train(
        *("segment", "--config", str(config), "--run", str(paths.run), "--number", "1"),
        *("--output", str(paths.train / SEGMENT)),
    )
    train("finish", "--run", str(paths.run), "--output", str(paths.finished))
    write_word_tokenizer(paths)
    export = ExportStage(
        name="run",
        model_name="run",
        export=ExportConfig(),
        model=trained.model,
        licences={},
    )
    parity = export_model(export, paths, paths.export / "run")
    assert parity.max_difference < 1e-5
    assert parity.argmax_agreement > 0.99
    weights = load_file(paths.export / "run" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert f"{parity.consumed_tokens:,} tokens" in (paths.export / "run" / "README.md").read_text()
