"""Plans that cannot work are refused: exit code 1 and a JSON list that says what to change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bloomery.commands.plan import app
from bloomery.config import load_config, validate_config

ROOT = Path(__file__).parents[3]
BERT12 = {
    # bert12 b8k: Megatron takes the warm-up's share (0.16) of lr-decay-iters: 63600, where 6336 were meant.
    "training.train_samples": 6400 * 8192,
    "training.batch": {"micro_batch_size": 4, "global_batch_size": 8192},
    "training.optimizer.warmup_samples": 10_176 * 8192,
    "training.optimizer.decay_samples": None,
}


def changed(preset: str, changes: dict[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / f"config/models/{preset}.yaml").read_text())
    for path, value in changes.items():
        *parents, last = path.split(".")
        section = raw
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return raw


@pytest.mark.parametrize(
    ("preset", "changes", "key", "reason"),
    [
        ("bert-large", BERT12, "training.optimizer.warmup_samples", "the peak is never reached"),
        ("tr11-176b", {"training.optimizer.decay_samples": 220_000_001}, "training.optimizer.decay_samples", "exceeds"),
        (
            "tr11-176b",
            {"training.batch.rampup": {"start": 200, "increment": 8, "samples": 9_765_625}},
            "training.batch.global_batch_size",
            "200, 216, 232, 248, 264 not divisible by micro_batch_size x parallel.data = 2 x 8 = 16",
        ),
        ("tr11-176b", {"training.parallel.tensor": 3}, "model.heads", "112 must be divisible"),
        ("tr11-176b", {"model.padded_vocabulary_size": 250_368}, "model.padded_vocabulary_size", "is smaller than"),
        ("tr11-176b", {"model.padded_vocabulary_size": 250_900}, "model.padded_vocabulary_size", "128 x 4 = 512"),
        ("tr11-176b", {"training.parallel.pipeline": 71}, "training.parallel.pipeline", "cannot fill"),
        ("bert-large", {"training.parallel.pipeline": 2}, "training.parallel.pipeline", "do not partition"),
        ("tr11-176b", {"training.zero_stage": 2}, "training.zero_stage", "cannot be used with a pipeline"),
        ("tr11-176b", {"training.gradient_accumulation": "same"}, "training.gradient_accumulation", "without fp32"),
        (
            "tr8-104b-curriculum",
            {"training.curriculum.start_length": 60},
            "training.curriculum.start_length",
            "must be divisible by 8",
        ),
        ("tr11-176b", {"plan.disk": "40TB"}, "plan.disk", "the run needs 296.3 TiB"),
        ("tr11-176b", {"plan.gpu": "a100-80"}, "plan.gpu", "did you mean 'a100-80gb'?"),
        ("tr11-176b", {"model.layer": 7}, "model.layer", "did you mean 'model.layers'?"),
        ("t5-small", {"model.decoder_layers": None}, "model.decoder_layers", "family t5 needs decoder_layers"),
    ],
)
def test_a_plan_is_refused(tmp_path: Path, preset: str, changes: dict[str, Any], key: str, reason: str) -> None:
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


def test_every_refusal_comes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    both = {"training.zero_stage": 3, "plan.disk": 1, "training.optimizer.decay_samples": 10**12}
    path.write_text(yaml.safe_dump(changed("tr11-176b", both)))
    done = CliRunner().invoke(app, [str(path), "--json"])
    keys = {each["key"] for each in json.loads(done.stdout)}
    assert keys == {"training.zero_stage", "plan.disk", "training.optimizer.decay_samples"}


def test_the_suggestion_is_right() -> None:
    # Following it, the plan is accepted.
    raw = changed("tr11-176b", {"model.padded_vocabulary_size": 250_881})
    raw["model"]["padded_vocabulary_size"] = 251_392
    assert validate_config(raw).model.padded_vocabulary_size == 251_392


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bloomery.cli", "plan", str(tmp_path / "none.yaml"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file" in done.stderr


def test_what_ran_in_2022_is_a_warning() -> None:
    from bloomery.plan.deepspeed_json import deepspeed_json
    from bloomery.plan.notices import notices

    tr8 = load_config(ROOT / "config/models/tr8-104b.yaml")
    heads = next(notice for notice in notices(tr8) if notice.key == "model.heads")
    assert "145 wide, no multiple of 8" in heads.reason
    bloom = load_config(ROOT / "config/models/tr11-176b.yaml")
    assert "runs as stage 1" in next(notice.reason for notice in notices(bloom) if notice.key == "training.zero_stage")
    assert deepspeed_json(bloom.training)["zero_optimization"] == {"stage": 1}
    assert deepspeed_json(bloom.training)["data_types"] == {"grad_accum_dtype": "fp32"}
