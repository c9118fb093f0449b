"""Test that impossible plans are refused with exit code 1 and a JSON list of what to change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed_preset import changed
from repository import ROOT
from stopwatch import is_faster_than
from typer.testing import CliRunner

from bloomery.checks.load_config import validate_config
from planner.cli import app

BERT12 = {
    # In the published script bert12 b8k, the warm-up is 0.16 of lr-decay-iters, which is 63600 although 6336 was
    # intended.
    "training.train_samples": 6400 * 8192,
    "training.batch": {"micro_batch_size": 4, "global_batch_size": 8192},
    "training.optimizer.warmup_samples": 10_176 * 8192,
    "training.optimizer.decay_samples": None,
}


@pytest.mark.parametrize(
    ("preset", "changes", "key", "reason"),
    [
        (
            "bert-large",
            BERT12,
            "training.optimizer.warmup_samples",
            "the warm-up takes 10,176 iterations, but the training has only 6,400, so the learning rate would never "
            "reach its peak of 0.01; its greatest value would be 0.006289",
        ),
        (
            "t5-small",
            {"training.batch.global_batch_size": 16_384, "training.batch_scaling.warmup_iterations": 3201},
            "training.batch_scaling.warmup_iterations",
            "the warm-up takes 3,201 iterations, but the training has only 3,200, so the learning rate would never "
            "reach its peak of 0.0113; its greatest value would be 0.0113",
        ),
        ("t5-small", {"training.optimizer.learning_rate": 1e-3}, "training.optimizer.learning_rate", "both set"),
        ("tr11-176b", {"training.optimizer.decay_samples": 220_000_001}, "training.optimizer.decay_samples", "exceeds"),
        (
            "tr11-176b",
            {"training.batch.rampup": {"start": 200, "increment": 8, "samples": 9_765_625}},
            "training.batch.global_batch_size",
            "792, 808, 824, 840, 856 are not divisible by micro_batch_size x parallel.data = 2 x 8 = 16",
        ),
        ("tr11-176b", {"training.parallel.tensor": 3}, "model.heads", "112 must be divisible"),
        ("tr11-176b", {"model.padded_vocabulary_size": 250_368}, "model.padded_vocabulary_size", "is smaller than"),
        ("tr11-176b", {"model.padded_vocabulary_size": 250_900}, "model.padded_vocabulary_size", "128 x 4 = 512"),
        ("tr11-176b", {"training.parallel.pipeline": 71}, "training.parallel.pipeline", "cannot fill"),
        ("bert-large", {"training.parallel.pipeline": 2}, "training.parallel.pipeline", "cannot be split into"),
        ("tr11-176b", {"training.zero_stage": 2}, "training.zero_stage", "is not supported, because"),
        (
            "tr11-176b",
            {"training.gradient_accumulation": "same"},
            "training.gradient_accumulation",
            "needs gradient_accumulation 'fp32'",
        ),
        (
            "tr8-104b-curriculum",
            {"training.curriculum.start_length": 60},
            "training.curriculum.start_length",
            "must be divisible by 8",
        ),
        (
            "tr8-104b-curriculum",
            {"training.curriculum.length_step": 72},
            "training.curriculum.start_length",
            "the first samples would have no tokens",
        ),
        (
            "tr8-104b-curriculum",
            {"training.optimizer.decay_tokens": 1000},
            "training.optimizer.decay_tokens",
            "the decay would end before the warm-up",
        ),
        (
            "tr11-176b",
            {"training.optimizer.decay_samples": None, "training.optimizer.decay_tokens": 10**15},
            "training.optimizer.decay_tokens",
            "exceeds the 450560000000 tokens",
        ),
        (
            "tr8-104b-curriculum",
            {"training.train_tokens": 10**9, "training.optimizer.warmup_samples": 2 * 10**8},
            "training.optimizer.warmup_samples",
            "the learning rate would never reach its peak",
        ),
        ("tr11-176b", {"training.train_tokens": 10**12 // 5}, "training.optimizer.decay_samples", "ends the run"),
        (
            "tr11-176b",
            {
                "training.batch": {
                    "global_batch_size": 16 * 10**9,
                    "rampup": {"start": 16, "increment": 16, "samples": 10**10},
                },
                "training.train_samples": 10**11,
            },
            "training.batch.rampup.increment",
            "gives 999999999 steps",
        ),
        (
            "tr11-176b",
            {"training.batch.rampup.increment": 5000, "plan.disk": "9TB", "training.zero_stage": 1},
            "training.batch.rampup.increment",
            "must be a multiple",
        ),
        ("tr11-176b", {"training.train_samples": 10**400}, "training.train_samples", "is not valid"),
        ("tr11-176b", {"model.layers": 10**9}, "model.layers", "is not valid"),
        ("tr11-176b", {"plan.tflops_hardware": 1e30}, "plan.tflops_hardware", "is not valid"),
        ("tr11-176b", {"plan.tflops_hardware": 1e-300}, "plan.tflops_hardware", "is not valid"),
        ("tr11-176b", {"plan.validation_seconds": 1e308}, "plan.validation_seconds", "is not valid"),
        ("tr11-176b", {"plan.disk": "40TB"}, "plan.disk", "the run needs up to 301.5 TiB"),
        ("tr11-176b", {"plan.gpu": "a100-80"}, "plan.gpu", "did you mean 'a100-80gb'?"),
        ("tr11-176b", {"model.layer": 7}, "model.layer", "did you mean 'model.layers'?"),
        (
            "tr11-176b",
            {"training.optimizer.schedule": "wsd", "training.optimizer.cooldown_samples": 199_900_000},
            "training.optimizer.cooldown_samples",
            "exceeds the 199816895 samples between the end of the warm-up",
        ),
        ("tr11-176b", {"training.optimizer.cooldown_samples": 9}, "training.optimizer.cooldown_samples", "no cooldown"),
        (
            "tr8-104b-curriculum",
            {"training.optimizer.schedule": "wsd", "training.optimizer.cooldown_samples": 9},
            "training.optimizer.cooldown_samples",
            "the end of the decay is stated in tokens",
        ),
        (
            "tr11-176b",
            {"training.optimizer.warmup_tokens": 9},
            "training.optimizer.warmup_tokens",
            "both set the length of the warm-up",
        ),
        (
            "tr8-104b-curriculum",
            {"training.optimizer.warmup_samples": 0, "training.optimizer.warmup_tokens": 10**12},
            "training.optimizer.warmup_tokens",
            "the learning rate would never reach its peak",
        ),
        (
            "tr11-176b",
            {"training.optimizer.warmup_samples": 0, "training.optimizer.warmup_tokens": 205_000_000 * 2048},
            "training.optimizer.decay_samples",
            "the warm-up, which ends after 205000000 samples",
        ),
        ("tr11-176b", {"training.optimizer.momentum": 0.9}, "training.optimizer.momentum", "'adam', which uses beta1"),
        (
            "tr11-176b",
            {"training.skip": [{"from_sample": 5, "to_sample": 220_000_001}]},
            "training.skip[0].to_sample",
            "exceeds training.train_samples",
        ),
        (
            "tr11-176b",
            {"training.skip": [{"from_sample": 0, "to_sample": 220_000_000}]},
            "training.skip",
            "no batch is left",
        ),
        ("tr11-176b", {"training.partition": "type:("}, "training.partition", "unterminated"),
        ("tr11-176b", {"training.partition": "type:head|norm"}, "training.partition", "3 layers match"),
        (
            "tr11-176b",
            {"training.partition": "type:embedding", "training.parallel.pipeline": 2},
            "training.partition",
            "pipeline stage 1 would have no transformer block",
        ),
        (
            "tr11-176b",
            {"training.parallel.sequence_parallel": True, "model.sequence_length": 2046},
            "model.sequence_length",
            "divisible by training.parallel.tensor 4",
        ),
        (
            "tr11-176b",
            {"training.parallel.sequence_parallel": True, "training.parallel.tensor": 1},
            "training.parallel.sequence_parallel",
            "training.parallel.tensor is 1",
        ),
        ("tr11-176b", {"model.positions": "rotary", "model.heads": 14_336}, "model.heads", "pairs of features"),
        ("tr11-176b", {"model.rotary_base": 5e5}, "model.rotary_base", "has no effect, because positions is 'alibi'"),
        ("bert-large", {"model.activation": "swiglu"}, "model.activation", "family 'bert' needs activation 'gelu'"),
        (
            "tr11-176b",
            {"training.kernels": {"attention": "flash"}, "training.precision": "fp32"},
            "training.kernels.attention",
            "does not support training.precision 'fp32'",
        ),
        (
            "tr11-176b",
            {"training.kernels": {"optimizer": "apex"}, "training.optimizer.kind": "sgd"},
            "training.kernels.optimizer",
            "apex is used only for Adam and LAMB, not for sgd",
        ),
        (
            "t5-small",
            {"model.decoder_layers": None},
            "model.decoder_layers",
            "family 't5' needs the key decoder_layers",
        ),
    ],
)
def test_an_impossible_plan_is_refused_with_key_and_reason(
    tmp_path: Path, preset: str, changes: dict[str, Any], key: str, reason: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(changed(preset, changes)))
    done = CliRunner().invoke(app, [str(path), "--json"])
    assert done.exit_code == 1
    refusals = json.loads(done.stdout)
    assert all(set(each) == {"key", "value", "reason", "suggestion"} for each in refusals)
    found = {each["key"]: each for each in refusals}
    assert key in found, refusals
    assert reason in found[key]["reason"]
    assert found[key]["suggestion"] or "did you mean" in found[key]["reason"]
    assert str(path) in done.stderr


def test_all_refusals_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    both = {"training.zero_stage": 3, "plan.disk": 1, "training.optimizer.decay_samples": 10**12}
    path.write_text(yaml.safe_dump(changed("tr11-176b", both)))
    done = CliRunner().invoke(app, [str(path), "--json"])
    keys = {each["key"] for each in json.loads(done.stdout)}
    assert keys == {"training.zero_stage", "plan.disk", "training.optimizer.decay_samples"}


def test_the_suggested_vocabulary_size_is_valid() -> None:
    # The suggested value makes the configuration valid.
    raw = changed("tr11-176b", {"model.padded_vocabulary_size": 250_881})
    raw["model"]["padded_vocabulary_size"] = 251_392
    assert validate_config(raw).model.padded_vocabulary_size == 251_392


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bloomery.cli", "plan", str(tmp_path / "none.yaml"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file" in done.stderr


def test_a_ramp_up_over_many_samples_is_planned_quickly(tmp_path: Path) -> None:
    ramp = {"start": 192, "increment": 16, "samples": 10**15}
    many = {"training.batch.rampup": ramp, "training.train_samples": 10**16, "training.optimizer.decay_samples": None}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(changed("tr11-176b", many)))
    assert is_faster_than(5, lambda: CliRunner().invoke(app, [str(path), "--json"]))
    done = CliRunner().invoke(app, [str(path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["iterations"] > 10**12


def test_failures_too_frequent_for_any_progress_are_reported(tmp_path: Path) -> None:
    path = str(ROOT / "config/models/tr11-176b.yaml")
    for days in ("1e-9", "1e-3"):
        done = CliRunner().invoke(app, [path, "--json", "--days-between-failures", days])
        assert done.exit_code == 0
        failures = json.loads(done.stdout)["failures"]
        assert (failures["lost_fraction"], failures["days_with_failures"]) == (1, None)
        done = CliRunner().invoke(app, [path, "--days-between-failures", days])
        assert "the training never ends" in done.stdout
