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
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place
from bloomery.contracts.sample_reader import SampleReader
from data_prep.index.verify_index import verify_index
from monitoring.verify_run import verify_run

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


@pytest.mark.parametrize("how", ["failure", "kill"])
def test_an_encode_that_fails_or_is_killed_leaves_an_index_that_verifies_and_opens(
    copied: Callable[[], Workflow], bench: ModuleType, how: str
) -> None:
    workflow = copied()
    run = workflow.run_folder
    # The copied run has no hard links. So build the index again, with links to the copied token files.
    (run / "results/index.json").unlink()
    workflow.run("index")
    reader = SampleReader(run / "index")
    samples = [reader.train(number).tolist() for number in range(reader.train_samples)]
    config = workflow.folder / "run.yaml"
    config.write_text(yaml.safe_dump(workflow.config | {"root": str(workflow.folder / "runs")}))
    tried = bench.disturb(run, config, "encode", how, 0.1)
    assert tried.lost == (), tried
    listed = read_index_manifest(run / "index/index.json").token_files
    encoded = [run / f"{entry.prefix.replace('token_files', 'index/tokens')}.idx" for entry in listed]
    assert not all(path.is_file() for path in encoded), "the disturbed job must have lost its own outputs"
    verify_index(run / "index")
    again = SampleReader(run / "index")
    assert [again.train(number).tolist() for number in range(again.train_samples)] == samples
    assert [reader.train(number).tolist() for number in range(reader.train_samples)] == samples
    # The same command encodes the text again, and nothing else changes.
    before = bench.digests(run)
    workflow.run("index")
    assert bench.digests(run) == before
    assert all(path.samefile(run / f"index/token_files/{path.relative_to(run / 'index/tokens')}") for path in encoded)


def test_a_copy_that_follows_links_gets_its_links_back_and_builds_nothing(finished: Workflow, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "copy")
    workflow = Workflow(tmp_path / "copy", copy.deepcopy(finished.config))
    run = workflow.run_folder
    assert not (run / "export/tiny").is_symlink()
    said = workflow.run("--dry-run")
    assert "Nothing to be done" in said
    assert said.count("links have replaced the copies") == len(list((run / "results").rglob("current")))
    assert (run / "export/tiny").is_symlink()
    assert workflow.run("--dry-run").count("links again") == 0
    verify_run(RunPaths(run))
    (run / "published/publish.json").unlink()
    assert set(workflow.planned()) - {"all"} == {"publish_run"}
