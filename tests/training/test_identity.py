"""Which checkpoints a training goes on from when its index has changed. No process of training is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import make_run, stage
from training_launcher import Launcher

from bloomery.base.errors import CheckFailedError
from bloomery.config.stages import TrainStage
from bloomery.contracts.checkpoint import CheckpointManifest, read_checkpoint, step_name, write_manifest
from bloomery.contracts.index import IndexManifest, read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.prefix import sample_prefix
from training.launch import settle_identity
from training.loop.identity import continues, identity

CONSUMED = 40
TRAINED = stage(samples=64, on_change="refuse")
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A training of 64 samples that read 40 of its index of 128."""
    make_run(tmp_path, TRAINED)
    found = RunPaths(tmp_path)
    index = read_index_manifest(found.index_manifest)
    folder = found.checkpoints / step_name(5)
    folder.mkdir(parents=True)
    manifest = CheckpointManifest(
        identity=identity(TRAINED, index),
        prefix=sample_prefix(index, CONSUMED),
        config=TRAINED.model_dump(mode="json"),
        iteration=5,
        consumed_samples=CONSUMED,
        consumed_tokens=0,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        vocabulary_size=500,
        vocabulary_rows=512,
        layers=1,
        versions={},
        files={},
    )
    write_manifest(folder, manifest)
    return found


def rebuilt(paths: RunPaths, edit: Edit) -> IndexManifest:
    """The index after `edit` of its manifest."""
    raw = json.loads(paths.index_manifest.read_text())
    raw["digest"] = "another"
    edit(raw)
    paths.index_manifest.write_text(json.dumps(raw))
    return read_index_manifest(paths.index_manifest)


def changed_at(sample: int, spread_to: int) -> Edit:
    """Stages: the old weights laid out to `spread_to` and cut at `sample`, then yy alone."""

    def edit(raw: dict[str, Any]) -> None:
        half = spread_to // 2
        first = {"weight": 0.5, "quota": half, "first_sample": 0, "taken": sample // 2}
        rest = {"weight": 1.0, "quota": 128 - sample, "first_sample": sample // 2, "taken": 128 - sample}
        raw["stages"] = [
            {
                "from_sample": 0,
                "to_sample": sample,
                "spread_to": spread_to,
                "datasets": {"train/xx": first, "train/yy": first},
            },
            {"from_sample": sample, "to_sample": 128, "spread_to": 128, "datasets": {"train/yy": rest}},
        ]

    return edit


def refusal(paths: RunPaths, trained: TrainStage = TRAINED) -> str:
    with pytest.raises(CheckFailedError) as caught:
        settle_identity(trained, paths)
    assert list(paths.checkpoints.iterdir()), "the checkpoints stay"
    return str(caught.value)


@pytest.mark.parametrize("at", [CONSUMED, CONSUMED + 2, 126])
def test_an_index_that_changed_behind_what_was_read_goes_on(paths: RunPaths, at: int) -> None:
    index = rebuilt(paths, changed_at(at, 128))
    settle_identity(TRAINED, paths)
    checkpoint = read_checkpoint(paths.checkpoints / step_name(5))
    assert continues(checkpoint, identity(TRAINED, index), index)
    assert not continues(checkpoint, "another training", index)


def test_a_change_within_what_was_read_is_refused_and_the_right_stages_are_named(paths: RunPaths) -> None:
    index = rebuilt(paths, changed_at(CONSUMED - 2, 128))
    text = refusal(paths)
    assert "the first 40 samples would be others (to_sample of blend stage 0: 40 -> 38" in text
    assert "in index.blend, {from_sample: 0, spread_to: 128} with the weights it had" in text
    assert "what shall change in a stage with from_sample >= 40" in text
    assert "or training.on_change: restart" in text
    assert not continues(read_checkpoint(paths.checkpoints / step_name(5)), identity(TRAINED, index), index)


def test_a_stage_that_is_laid_out_to_the_change_is_refused(paths: RunPaths) -> None:
    rebuilt(paths, changed_at(CONSUMED, CONSUMED))
    assert "spread_to of blend stage 0: 128 -> 40" in refusal(paths)


def test_other_documents_are_refused_by_name(paths: RunPaths) -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["train"][1]["identity"] = "more of it"

    rebuilt(paths, edit)
    assert "the first 40 samples would be others (documents of train/yy)" in refusal(paths)


def test_another_tokenizer_and_another_schedule_are_said(paths: RunPaths) -> None:
    rebuilt(paths, lambda raw: raw.update(tokenizer_digest="another"))
    assert "from something else: the tokenizer; expected: the old configuration; or" in refusal(paths)
    other = stage(samples=64, on_change="refuse", optimizer={"learning_rate": 0.5})
    assert "training.optimizer.learning_rate: 0.01 -> 0.5" in refusal(paths, other)


def test_with_restart_the_old_training_is_kept_and_said(paths: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    rebuilt(paths, changed_at(CONSUMED - 2, 128))
    settle_identity(stage(samples=64), paths)
    assert not paths.checkpoints.exists()
    assert list(paths.train.glob("archive/*-step5/checkpoints/step00000005/manifest.json"))
    said = capsys.readouterr().err
    assert "the first 40 samples would be others" in said
    assert "To go on from it instead: the same documents and, in index.blend, {from_sample: 0, spread_to: 128}" in said


def test_the_verb_refuses_before_it_starts_a_process(paths: RunPaths) -> None:
    rebuilt(paths, changed_at(CONSUMED - 2, 128))
    process = Launcher(paths.run, paths.config / "train.json").start()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "the first 40 samples would be others" in talk
    assert not (paths.segments / "history").exists()
