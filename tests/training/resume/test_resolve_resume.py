"""Test from which checkpoint a training resumes after a change of its configuration or index.

The tests start no training process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage
from training_launcher import Launcher

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.failure_cause import failure_cause
from bloomery.config.stages import InitialWeights, TrainStage
from bloomery.contracts.checkpoint import Change, newest_manifest, read_checkpoint, step_name
from bloomery.contracts.index_manifest import IndexManifest, read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import changes_since, continues, identity
from bloomery.contracts.skips import read_skips
from training.resume.add_skip import add_skip
from training.resume.resolve_resume import resolve_resume

CONSUMED = 40
TRAINED = stage(samples=64, on_change="refuse")
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """Create a training of 64 samples that has read 40 samples of an index with 128 samples."""
    make_run(tmp_path, TRAINED)
    found = RunPaths(tmp_path)
    save_manifest(found, TRAINED, 5, CONSUMED)
    return found


def rebuilt(paths: RunPaths, edit: Edit) -> IndexManifest:
    """Apply `edit` to the index manifest and return the new manifest."""
    raw = json.loads(paths.index_manifest.read_text())
    raw["digest"] = "another"
    edit(raw)
    paths.index_manifest.write_text(json.dumps(raw))
    return read_index_manifest(paths.index_manifest)


def changed_at(sample: int, spread_to: int) -> Edit:
    """Return an edit that divides the blend into two stages.

    The first has the old weights and `spread_to` and ends at `sample`. The second reads only dataset yy.
    """

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
        resolve_resume(trained, paths)
    assert list(paths.checkpoints.iterdir()), "a refusal must keep the checkpoints"
    return str(caught.value)


def choices(text: str) -> list[dict[str, Any]]:
    """Return the YAML of each choice that a refusal prints, parsed."""
    found: list[list[str]] = []
    for line in text.splitlines()[1:]:
        if line.startswith("    "):
            found[-1].append(line)
        else:
            found.append([])
    return [yaml.safe_load("\n".join(lines)) for lines in found]


@pytest.mark.parametrize("at", [CONSUMED, CONSUMED + 2, 126])
def test_an_index_that_changed_after_the_read_samples_is_accepted(paths: RunPaths, at: int) -> None:
    index = rebuilt(paths, changed_at(at, 128))
    resolve_resume(TRAINED, paths)
    checkpoint = read_checkpoint(paths.checkpoints / step_name(5))
    assert continues(checkpoint, identity(TRAINED, index), index)
    assert not continues(checkpoint, "another training", index)


def test_a_change_within_the_read_samples_is_refused_with_the_required_stages(paths: RunPaths) -> None:
    index = rebuilt(paths, changed_at(CONSUMED - 2, 128))
    text = refusal(paths)
    assert "the first 40 samples would be different (to_sample of blend stage 0: 40 -> 38" in text
    assert "in index.blend: the stage {from_sample: 0, spread_to: 128} with the same weights as" in text
    assert "new weights only in a stage with from_sample >= 40" in text
    assert choices(text) == [{"training": {"on_change": "restart"}}]
    assert not continues(read_checkpoint(paths.checkpoints / step_name(5)), identity(TRAINED, index), index)


def test_a_stage_whose_spread_to_changed_is_refused(paths: RunPaths) -> None:
    rebuilt(paths, changed_at(CONSUMED, CONSUMED))
    assert "spread_to of blend stage 0: 128 -> 40" in refusal(paths)


def test_changed_documents_are_refused_with_their_dataset(paths: RunPaths) -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["train"][1]["identity"] = "more of it"

    rebuilt(paths, edit)
    assert "the first 40 samples would be different (changed documents of the dataset train/yy)" in refusal(paths)


def test_a_changed_tokenizer_and_schedule_are_reported(paths: RunPaths) -> None:
    rebuilt(paths, lambda raw: raw.update(tokenizer_digest="another"))
    text = "cannot resume from step00000005 with these changes: the tokenizer; expected: the old tokenizer; or"
    assert text in refusal(paths)
    other = stage(samples=64, on_change="refuse", optimizer={"learning_rate": 0.5})
    assert "the tokenizer; training.optimizer.learning_rate: 0.01 -> 0.5 (may change: at a boundary)" in refusal(
        paths, other
    )


def test_with_restart_the_old_training_is_archived_and_reported(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    rebuilt(paths, changed_at(CONSUMED - 2, 128))
    resolve_resume(stage(samples=64, on_change="restart"), paths)
    assert not paths.checkpoints.exists()
    assert list(paths.train.glob("archive/*-step5/checkpoints/step00000005/manifest.json"))
    said = capsys.readouterr().err
    assert "the first 40 samples would be different" in said
    assert "resuming it would need: the same documents as in the old index, and these stages in index.blend: " in said
    assert "the stage {from_sample: 0, spread_to: 128}" in said


def test_by_default_a_changed_learning_rate_is_refused_and_each_printed_choice_works(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = {"learning_rate": 0.5, "warmup_samples": 16}
    text = refusal(paths, stage(samples=64, optimizer=rate))
    assert (
        "keys changed since step00000005: training.optimizer.learning_rate: 0.01 -> 0.5 (may change: at a boundary)"
        in text
    )
    assert "keep the training: it resumes from step00000005, and the new values apply from iteration 6 on:" in text
    kept, restarted = (stage(samples=64, optimizer=rate, **each["training"]) for each in choices(text))
    assert resolve_resume(kept, paths).position.iteration == 5
    assert (paths.checkpoints / step_name(5)).is_dir()
    assert resolve_resume(restarted, paths).position.iteration == 0
    (archive,) = (paths.train / "archive").iterdir()
    assert f"the old one with its checkpoints moves to {archive}:" in text
    assert (archive / "checkpoints" / step_name(5)).is_dir()
    assert "as long as training.on_change is restart" in capsys.readouterr().err


def test_a_scaled_learning_rate_is_compared_with_a_stated_one(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first two batches have 8 samples each, so the warm-up ends after 16 samples, as it did before.
    scaling = {"base_batch": 16, "base_learning_rate": 0.01, "warmup_iterations": 2}
    scaled: dict[str, Any] = {"samples": 64, "optimizer": {}, "batch_scaling": scaling}
    assert resolve_resume(stage(**scaled, on_change="refuse"), paths).position.iteration == 5
    assert "training.batch_scaling: null -> {" in capsys.readouterr().err
    # A checkpoint keeps the section as it was written, so the same configuration is not a change.
    trained = stage(**scaled, on_change="refuse")
    save_manifest(paths, trained, 6, CONSUMED)
    assert resolve_resume(trained, paths).position.iteration == 6
    assert not capsys.readouterr().err
    ramp = {"start": 8, "increment": 8, "samples": 24}
    larger = stage(**scaled, batch={"micro_batch_size": 2, "global_batch_size": 64, "rampup": ramp})
    text = refusal(paths, larger)
    assert "training.batch.global_batch_size: 16 -> 64 (may change: at a boundary)" in text
    assert "training.optimizer.learning_rate: 0.01 -> 0.02 (may change: at a boundary)" in text
    # The ramp-up to 64 samples gives the second batch 24 samples.
    assert "training.optimizer.warmup_samples: 16 -> 32 (may change: at a boundary)" in text


def test_the_yaml_of_a_refused_value_that_may_never_change_restores_it_and_continues(paths: RunPaths) -> None:
    changes: dict[str, Any] = {"samples": 64, "optimizer": {"learning_rate": 0.5, "warmup_samples": 16}}
    text = refusal(paths, stage(**changes, precision="fp32"))
    assert "expected: the old values; or another name of the run, or one of these choices in the run's YAML" in text
    kept, restart = choices(text)
    assert kept == {"training": {"precision": "bf16", "on_change": "continue"}}
    assert resolve_resume(stage(**changes, **kept["training"]), paths).position.iteration == 5
    assert restart == {"training": {"on_change": "restart"}}


def test_the_whole_refusal_is_shown_as_the_cause_of_a_failed_job(paths: RunPaths, tmp_path: Path) -> None:
    text = f"error: {refusal(paths, stage(samples=64, optimizer={'learning_rate': 0.5}))}"
    log = tmp_path / "train.log"
    log.write_text(f"started\n{text}\n[job] failed\n")
    assert failure_cause([log])[0] == text.splitlines()


def test_with_continue_training_resumes_and_reports_every_change_with_its_policy(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    # Change the schedule, the layout and the batch, and keys that are free.
    other = stage(
        samples=96,
        data=2,
        on_change="continue",
        optimizer={"learning_rate": 0.5, "warmup_samples": 16},
        batch={"micro_batch_size": 1, "global_batch_size": 8},
        checkpoint={"every_iterations": 7},
    )
    assert resolve_resume(other, paths).stage == other
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "the training resumes from step00000005 with these changed configuration keys:"
    assert said[1:] == [
        "  training.batch.global_batch_size: 16 -> 8 (may change: at a boundary)",
        "  training.batch.micro_batch_size: 2 -> 1 (may change: at a boundary)",
        '  training.batch.rampup: {"start": 8, "increment": 8, "samples": 24} -> null (may change: at a boundary)',
        "  training.checkpoint.every_iterations: 2 -> 7 (may change: freely)",
        "  training.on_change: refuse -> continue (may change: freely)",
        "  training.optimizer.learning_rate: 0.01 -> 0.5 (may change: at a boundary)",
        "  training.parallel.data: 1 -> 2 (may change: at a boundary)",
        "  training.train_samples: 64 -> 96 (may change: at a boundary)",
    ]
    checkpoint, index = read_checkpoint(paths.checkpoints / step_name(5)), read_index_manifest(paths.index_manifest)
    assert continues(checkpoint, identity(other, index), index)
    recorded = changes_since(checkpoint, other)
    assert Change(iteration=5, key="training.parallel.data", before=1, after=2) in recorded
    assert [change.key for change in recorded] == [line.split(":")[0].strip() for line in said if "boundary" in line]


def test_with_continue_keys_that_may_never_change_are_refused(paths: RunPaths) -> None:
    other = stage(samples=64, on_change="continue", precision="fp32", optimizer={"learning_rate": 0.5})
    text = refusal(paths, other)
    assert (
        "cannot resume from step00000005 with these changes: training.precision: bf16 -> fp32 (may change: never)"
        in text
    )
    assert "expected: the old values; or another name of the run, or one of these choices in the run's YAML" in text
    wider = other.model_copy(update={"model": other.model.model_copy(update={"hidden_size": 64})})
    assert "model.hidden_size: 32 -> 64 (may change: never)" in refusal(paths, wider)
    rebuilt(paths, changed_at(CONSUMED - 2, 128))
    assert "the first 40 samples would be different" in refusal(paths, stage(samples=64, on_change="continue"))


def started_with(digest: str | None, source: str = "model") -> TrainStage:
    """Return the training with an initial checkpoint."""
    initial = None if digest is None else InitialWeights(digest=digest, source=source)
    return TRAINED.model_copy(update={"initial": initial})


def test_the_initial_checkpoint_may_have_another_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, TRAINED)
    save_manifest(RunPaths(tmp_path), started_with("0" * 64), 5, CONSUMED)
    resumed = resolve_resume(started_with("0" * 64, "renamed"), RunPaths(tmp_path))
    assert resumed.position.iteration == 5
    assert "  initial.source: model -> renamed (may change: freely)" in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("before", "now"), [("0" * 64, "1" * 64), (None, "1" * 64), ("0" * 64, None)])
def test_a_training_with_another_initial_checkpoint_is_not_resumed(
    tmp_path: Path, before: str | None, now: str | None
) -> None:
    make_run(tmp_path, TRAINED)
    save_manifest(RunPaths(tmp_path), started_with(before), 5, CONSUMED)
    text = refusal(RunPaths(tmp_path), started_with(now))
    assert f"initial.digest: {before or 'null'} -> {now or 'null'} (may change: never)" in text


def test_keys_that_do_not_affect_learning_may_change_with_any_on_change(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    for on_change in ("restart", "continue", "refuse"):
        resolve_resume(stage(samples=64, on_change=on_change, segment={"minutes": 9.0}, threads_per_rank=2), paths)
        assert (paths.checkpoints / step_name(5)).is_dir()
        assert "  training.segment.minutes: null -> 9.0 (may change: freely)" in capsys.readouterr().err.splitlines()


def test_nothing_is_reported_if_nothing_changed(paths: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    resolve_resume(TRAINED, paths)
    assert capsys.readouterr().err == ""


def test_only_samples_that_were_not_read_may_still_be_skipped(paths: RunPaths) -> None:
    def skipping(begin: int, end: int) -> TrainStage:
        return stage(samples=64, on_change="refuse", skip=[{"from_sample": begin, "to_sample": end}])

    assert resolve_resume(skipping(CONSUMED, CONSUMED + 8), paths).stage.training.skip
    text = refusal(paths, skipping(CONSUMED - 1, CONSUMED + 8))
    assert "training.skip: [] -> " in text
    assert "(may change: never)" in text
    assert "training.skip may change only for samples from 40 on" in text
    # Ranges that were already skipped must stay in the list.
    save_manifest(paths, skipping(8, 16), 6, CONSUMED + 8)
    resolve_resume(skipping(8, 16), paths)
    assert "training.skip" in refusal(paths, TRAINED)


def test_skips_of_the_run_are_merged_with_those_of_the_configuration(paths: RunPaths) -> None:
    assert add_skip(paths, 44, 50, "a spike")
    assert not add_skip(paths, 44, 50, "a spike"), "the same range must not be added twice"
    assert add_skip(paths, 60, 62, "another")
    configured = stage(samples=64, skip=[{"from_sample": 48, "to_sample": 52}, {"from_sample": 42, "to_sample": 44}])
    found = [(each.from_sample, each.to_sample) for each in resolve_resume(configured, paths).stage.training.skip]
    assert found == [(42, 52), (60, 62)]
    assert [skip.reason for skip in read_skips(paths).skips] == ["a spike", "another"]
    with pytest.raises(InputError, match="62:62 is not a valid range"):
        add_skip(paths, 62, 62, "empty")


def test_a_new_training_does_not_inherit_the_skips_of_the_old_one(paths: RunPaths) -> None:
    add_skip(paths, 44, 50, "a spike")
    other = stage(samples=64, on_change="restart", optimizer={"learning_rate": 0.5})
    assert resolve_resume(other, paths).stage.training.skip == []
    (archive,) = (paths.train / "archive").iterdir()
    assert (archive / "skips.json").is_file()


def test_a_second_restart_archives_both_old_trainings(paths: RunPaths) -> None:
    for number, rate in enumerate((0.5, 0.25), start=1):
        resolve_resume(stage(samples=64, on_change="restart", optimizer={"learning_rate": rate}), paths)
        assert len(list(paths.train.glob("archive/*/checkpoints/step00000005"))) == number
        save_manifest(paths, stage(samples=64, optimizer={"learning_rate": rate}), 5, CONSUMED)


def test_a_checkpoint_with_a_damaged_manifest_is_skipped(paths: RunPaths) -> None:
    save_manifest(paths, TRAINED, 6, CONSUMED + 16)
    (paths.checkpoints / step_name(6) / "manifest.json").write_text("{")
    assert newest_manifest(paths.checkpoints) == read_checkpoint(paths.checkpoints / step_name(5))
    resolve_resume(stage(samples=64, on_change="restart", optimizer={"learning_rate": 0.5}), paths)
    assert list(paths.train.glob("archive/*-step5/checkpoints/step00000006")), (
        "the damaged checkpoint must be archived with the other checkpoints"
    )


def test_the_train_verb_refuses_before_it_starts_a_process(paths: RunPaths) -> None:
    rebuilt(paths, changed_at(CONSUMED - 2, 128))
    process = Launcher(paths.run, paths.config / "train.json").start()
    talk, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "the first 40 samples would be different" in talk
    assert not (paths.segments / "history").exists()
