"""Test that the same command resumes to the same result after kills of workflow or stage, a stop, or a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from waiting import wait_for
from workflow_support import Workflow

pytestmark = pytest.mark.workflow

DATA = ("corpus", "tokenizer", "index")


def iterations(workflow: Workflow) -> int:
    metrics = workflow.run_folder / "train/logs/metrics.jsonl"
    return metrics.read_text().count('"loss"') if metrics.exists() else 0


def launcher(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the process of `bloomery train segment` among the descendants of a workflow."""
    below = psutil.Process(process.pid).children(recursive=True)
    found = [
        child for child in below if child.name().startswith(("bloomery", "python")) and "segment" in child.cmdline()
    ]
    assert found
    return found[0]


def test_a_workflow_killed_during_data_jobs_resumes_with_the_same_bytes(
    finished: Workflow, fresh: Callable[..., Workflow]
) -> None:
    workflow = fresh()
    for folder in ("corpus/measures", "corpus/duplicates", "corpus/clean", "index/tokens"):
        process = workflow.start()
        wait_for(lambda folder=folder: any((workflow.run_folder / folder).rglob("*.*")), 240, process)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.communicate()
    workflow.run("index")
    assert workflow.digests(*DATA) == finished.digests(*DATA)
    assert "Nothing to be done" in workflow.run("index")


def test_training_has_the_same_losses_after_a_stop_and_kills_of_stage_and_workflow(
    finished: Workflow, indexed: Workflow
) -> None:
    workflow = indexed

    process = workflow.start("train")
    wait_for(lambda: iterations(workflow) >= 1, 240, process)
    segment = launcher(process)
    wait_for(lambda: iterations(workflow) >= 4, 240, process)
    segment.terminate()
    talk, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "run the same command again to resume" in talk
    assert not (workflow.run_folder / "train/segments/1.json").exists()

    begun = iterations(workflow)
    process = workflow.start("train")
    wait_for(lambda: iterations(workflow) > begun, 240, process)
    segment = launcher(process)
    wait_for(lambda: iterations(workflow) >= begun + 6, 240, process)
    segment.kill()
    talk, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "train_segment/1.log" in talk
    assert "then resume with: " in talk

    begun = iterations(workflow)
    process = workflow.start()
    wait_for(lambda: iterations(workflow) >= begun + 6, 240, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    workflow.run()
    assert workflow.losses() == finished.losses()
    assert "Nothing to be done" in workflow.run()


def test_segments_follow_each_other_until_one_has_finished_or_there_are_too_many(
    indexed: Workflow,
) -> None:
    # The time limit ends each segment after one of the two iterations. A third segment makes the last validation.
    # The index computes the two iterations from the length in epochs. The plan's estimate of the tokens is too high.
    entries = json.loads((indexed.run_folder / "index/index.json").read_text())["train"]
    tokens = sum(entry["unique_tokens"] for entry in entries)
    workflow = indexed.changed("training.train_epochs", 17 * 32 / tokens).changed("plan.corpus_tokens", 2 * tokens)
    del workflow.config["training"]["train_samples"]
    few = workflow.changed("training.segment", {"minutes": 0.001, "max_segments": 1})
    talk = few.run("train", expect=1)
    assert "not finished after 1 segments; expected: a larger training.segment.max_segments" in talk
    workflow = workflow.changed("training.segment", {"minutes": 0.001})
    workflow.run("train")
    segments = [json.loads((workflow.run_folder / f"train/segments/{number}.json").read_text()) for number in (1, 2, 3)]
    assert [segment["status"] for segment in segments] == ["time_limit", "time_limit", "finished"]
    assert [segment["iteration"] for segment in segments] == [1, 2, 2]
    assert json.loads((workflow.run_folder / "train/finished.json").read_text()) == segments[-1]
    assert json.loads((workflow.run_folder / "index/index.json").read_text())["train_samples"] == 16
    assert "Nothing to be done" in workflow.run("train")


def test_a_second_workflow_on_the_run_is_refused_and_writes_nothing(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh()
    first = workflow.start("runs/tiny/corpus/verdicts/texts/00000.parquet")
    wait_for(lambda: (workflow.run_folder / "corpus/raw").exists(), 240, first)
    # The first workflow is paused, so that it cannot end before the others start.
    first.send_signal(signal.SIGSTOP)
    config = workflow.run_folder / "config/judge.json"
    before = config.read_bytes()
    other = workflow.changed("corpus.language_id.min_share", 0.1)
    talk = other.run("corpus", expect=75)
    assert f"another workflow works on this run (process {first.pid} on" in talk
    assert config.read_bytes() == before
    assert "another workflow works on this run" in other.run("--dry-run", "corpus")
    assert config.read_bytes() == before
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=900)
    assert first.returncode == 0


def test_jobs_that_outlive_the_workflow_do_not_hold_its_lock(fresh: Callable[..., Workflow], tmp_path: Path) -> None:
    workflow = fresh()
    process = workflow.start("corpus")
    wait_for(lambda: (workflow.run_folder / "logs/ingest").exists(), 240, process)
    lock = os.path.realpath(workflow.run_folder / ".lock")

    def holders() -> list[psutil.Process]:
        found = []
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if lock in [os.path.realpath(each.path) for each in child.open_files()]:
                    found.append(child)
        return found

    # Between its fork and its exec, a child has all open files of the workflow.
    wait_for(lambda: not holders(), 60, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    workflow.run("runs/tiny/corpus/verdicts/texts/00000.parquet")
