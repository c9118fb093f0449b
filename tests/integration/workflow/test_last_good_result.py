"""Test that the last good result stays when a job that would replace it fails or is killed through Snakemake."""

from __future__ import annotations

import copy
import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from repository import ROOT
from workflow_support import Workflow

from bloomery.base.folders import only_writer
from bloomery.contracts.result import Place

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        return importlib.import_module("last_good_result")


@pytest.fixture
def copied(finished: Workflow, tmp_path: Path) -> Callable[[], Workflow]:
    """Return a function that copies the finished run."""

    def copy_run() -> Workflow:
        folder = tmp_path / "copy"
        shutil.copytree(finished.folder, folder, symlinks=True)
        return Workflow(folder, copy.deepcopy(finished.config))

    return copy_run


def test_a_new_export_that_fails_its_parity_leaves_the_previous_model(
    copied: Callable[[], Workflow], bench: ModuleType
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    workflow = copied()
    before = bench.digests(workflow.run_folder)
    said = workflow.changed("export.tolerance", 1e-30).run("export", expect=1)
    assert "differ from those of the training model" in said
    assert bench.digests(workflow.run_folder) == before
    model = workflow.run_folder / "export/tiny"
    assert AutoModelForCausalLM.from_pretrained(model).config.n_layer == 2
    assert len(AutoTokenizer.from_pretrained(model)) > 300
    # With the old tolerance, the same model is exported again.
    workflow.run()
    assert bench.digests(workflow.run_folder) == before


def test_a_second_export_at_the_same_time_is_refused(copied: Callable[[], Workflow]) -> None:
    workflow = copied()
    run, pointer = workflow.run_folder, workflow.run_folder / "results/export/tiny.json"
    command = [sys.executable, "-m", "bloomery.cli", "export", "model", "--config", str(run / "config/export.json")]
    command += ["--run", str(run), "--result", str(pointer)]
    with only_writer(Place.of(pointer).folder / ".lock", pointer):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 75
    assert "another process is writing this" in done.stderr
    assert "Traceback" not in done.stderr


def test_jobs_that_fail_or_are_killed_leave_every_result(copied: Callable[[], Workflow], bench: ModuleType) -> None:
    """bench/last_good_result.py does this 100 times."""
    workflow = copied()
    config = workflow.folder / "run.yaml"
    config.write_text(yaml.safe_dump(workflow.config | {"root": str(workflow.folder / "runs")}))
    for rule, how in (("train_tokenizer", "failure"), ("build_index", "kill"), ("sync_logs", "kill")):
        tried = bench.disturb(workflow.run_folder, config, rule, how, 0.5)
        assert tried.lost == (), tried
