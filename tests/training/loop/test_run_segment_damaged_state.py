"""Test that a NaN in the state of a training never needs a person, and that no checkpoint with a NaN is saved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpoint_manifests import list_files_again
from fabricated_training import stage
from planted_nan import Plant, run_chain
from safetensors.torch import load_file, save_file
from segments import records, steps

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    REFERENCE_NAME,
    newest_manifest,
    read_checkpoint,
    step_folders,
    write_manifest,
)
from bloomery.contracts.paths import RunPaths
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SHAPE: dict[str, Any] = {"samples": 200, "validation": {"every_iterations": 100, "samples": 4}}
"""Settings of a training of 14 iterations."""
TOTAL = 14


def _chain(folder: Path, configuration: Any, plant: Plant | None, **options: Any) -> tuple[list[tuple[str, int]], Any]:
    """Run a chain. Return (status, iteration) of each segment, and the last values of each iteration."""
    segments = run_chain(folder, configuration, plant, **options)
    losses = {n: (record["loss"], record["grad_norm"]) for n, record in steps(folder).items()}
    return [(segment.status.value, segment.iteration) for segment in segments], losses


def _restarts(folder: Path) -> list[tuple[str, int, str]]:
    """Return event, iteration and message of each incident with a restart. metrics.jsonl has an event for each one.

    The same incident is not written twice, but each segment records its own event.
    """
    incidents = [read_incident(path) for path in incident_files(folder / "train" / "incidents")]
    found = [(each.event, each.iteration, each.message) for each in incidents if each.action == "restart"]
    events = [record for record in records(folder) if record.get("action") == "restart"]
    assert {(event["event"], event["message"]) for event in events} == {(event, text) for event, _, text in found}
    return [(str(event), iteration, text) for event, iteration, text in found]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    endings, _ = _chain(folder, stage(data=2, checkpoint={"every_iterations": 5}, **SHAPE), None)
    assert endings == [("finished", TOTAL)]
    assert not (folder / "train" / "incidents").exists()
    assert not [record for record in records(folder) if "event" in record]
    return folder


@pytest.fixture(scope="module")
def undisturbed(finished: Path) -> Any:
    """Return the losses and gradient norms of an undisturbed run."""
    return {n: (record["loss"], record["grad_norm"]) for n, record in steps(finished).items()}


def test_a_nan_in_a_master_weight_shortly_before_the_end_is_not_saved_and_the_chain_finishes(
    tmp_path: Path, undisturbed: Any
) -> None:
    """The state at the last save is not finite. torchrun starts the ranks, and rank 1 holds the NaN."""
    plant = Plant("masters", 13, 1, str(tmp_path / "mark"))
    configuration = stage(data=2, checkpoint={"every_iterations": 5}, **SHAPE)
    endings, losses = _chain(tmp_path / "run", configuration, plant, forks=False)
    assert endings == [("crashed", 10), ("finished", TOTAL)]
    assert losses == undisturbed
    ((event, iteration, message),) = _restarts(tmp_path / "run")
    assert (event, iteration) == ("non_finite", TOTAL)
    assert "is not finite" in message
    assert "the next segment resumes from the newest good checkpoint" in message
    assert (tmp_path / "run" / "train" / "logs" / "main_log.txt").read_text().count("action: restart") == 1


def test_a_nan_ends_the_segment_although_the_guard_would_end_the_training(tmp_path: Path, undisturbed: Any) -> None:
    """The guard skips six updates before a save is due. The NaN is in the state, so a restart without a person helps.

    The NaN is in a weight on replica 1. DeepSpeed saves the weights of replica 0 only.
    """
    configuration = stage(data=2, checkpoint={"every_iterations": 5}, **SHAPE)
    rare = stage(data=2, checkpoint={"every_iterations": 100}, **SHAPE)
    plant = Plant("weights", 3, 1, str(tmp_path / "mark"))
    endings, losses = _chain(tmp_path / "rare", rare, plant)
    assert endings == [("crashed", 0), ("finished", TOTAL)]
    assert losses == undisturbed
    ((_, iteration, message),) = _restarts(tmp_path / "rare")
    assert iteration == 9
    assert "on rank 1 is not finite" in message
    # If a save is due first, it finds the NaN too, although replica 1 does not write its weights.
    often = Plant("weights", 3, 1, str(tmp_path / "other mark"))
    endings, losses = _chain(tmp_path / "often", configuration, often)
    assert (endings, losses) == ([("crashed", 0), ("finished", TOTAL)], undisturbed)
    assert [iteration for _, iteration, _ in _restarts(tmp_path / "often")] == [5]


def test_a_nan_that_always_returns_ends_the_chain_with_advice(tmp_path: Path) -> None:
    limits = {"max_crashes": 100, "max_restarts_without_progress": 3}
    saves = {"every_iterations": 4, "asynchronous": True}
    configuration = stage(checkpoint=saves, segment=limits, **SHAPE)
    with pytest.raises(CheckFailedError) as caught:
        run_chain(tmp_path, configuration, Plant("exp_avg", 7, 0, str(tmp_path / "mark"), always=True))
    assert "starts in a row saved no new checkpoint" in caught.value.what
    assert "is not finite" in caught.value.what
    assert "lower training.optimizer.learning_rate" in caught.value.what
    assert [iteration for _, iteration, _ in _restarts(tmp_path)] == [8]
    newest = newest_manifest(RunPaths(tmp_path).checkpoints)
    assert newest is not None
    assert newest.iteration == 4
    assert [path.name for path in step_folders(RunPaths(tmp_path).checkpoints)] == ["step00000004"]


def test_a_resume_records_changed_software_and_damaged_checkpoints(
    tmp_path: Path, finished: Path, undisturbed: Any
) -> None:
    """The newest checkpoint has a damaged manifest, and the one before it has changed reference logits."""
    run = shutil.copytree(finished, tmp_path / "run")
    newest, middle, oldest = step_folders(RunPaths(run).checkpoints)
    manifest = newest / MANIFEST_NAME
    manifest.write_bytes(manifest.read_bytes().replace(b'"iteration": 14', b'"iteration": 15'))
    reference = load_file(middle / REFERENCE_NAME)
    reference["logits"][0, 0] += 1
    save_file(reference, middle / REFERENCE_NAME)
    list_files_again(middle)
    write_manifest(oldest, read_checkpoint(oldest).model_copy(update={"versions": {"torch": "2.0"}}))
    configuration = stage(data=2, checkpoint={"every_iterations": 5}, **SHAPE)
    endings, losses = _chain(run, configuration, None)
    assert endings == [("finished", TOTAL)]
    assert losses == undisturbed
    events = [(record["iteration"], record["message"]) for record in records(run) if record.get("event") == "resumed"]
    assert [iteration for iteration, _ in events] == [5, 5, 5]
    software, *damaged = [message for _, message in events]
    assert software.startswith("software that changed since step00000005: bloomery not recorded -> ")
    assert "; torch 2.0 -> " in software
    for message, name, problem in zip(
        damaged,
        ("step00000014", "step00000010"),
        ("changed after it was written", "the loaded network differs from the saved network"),
        strict=True,
    ):
        assert message.startswith(f"checkpoint {name} was skipped, because it is damaged: ")
        assert problem in message
    log = (run / "train" / "logs" / "main_log.txt").read_text()
    assert all(f"resumed at iteration 5: {message}; action: log" in log for _, message in events)
    # Training has reached the iterations of the damaged checkpoints again, and has replaced them.
    assert [read_checkpoint(path).iteration for path in step_folders(RunPaths(run).checkpoints)] == [14, 10, 5]
    assert not list(run.rglob(DAMAGED_NAME))
