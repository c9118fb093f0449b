"""Test that everything that is older than its inputs is marked, and that a change of one byte is found."""

from __future__ import annotations

import copy
import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT
from workflow_support import Workflow

from bloomery.base.errors import BloomeryError, CheckFailedError
from bloomery.config.stages import PublishStage, read_stage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place
from bloomery.contracts.stale_artefacts import stale_artefacts
from export.publish import publish_run
from monitoring.summary import gather_summary
from monitoring.summary_cli import lines
from monitoring.verify_run import verify_run

pytestmark = pytest.mark.workflow

MODEL = {"training", "model tiny", "published tiny", "report training", "logs"}
INDEX = {"index"} | MODEL
TOKENIZER = {"tokenizer", "report tokenizer"} | INDEX


@pytest.fixture
def edited(finished: Workflow, tmp_path: Path) -> Callable[..., Workflow]:
    """Return a function that copies the finished run and changes a key of its configuration."""

    def edit(key: str, value: Any) -> Workflow:
        folder = tmp_path / "copy"
        shutil.copytree(finished.folder, folder, symlinks=True)
        return Workflow(folder, copy.deepcopy(finished.config)).changed(key, value)

    return edit


@pytest.mark.parametrize(
    ("key", "value", "target", "stale"),
    [
        ("corpus.pii.kinds", ["ip"], "corpus", TOKENIZER),
        ("tokenizer.vocabulary_size", 600, "tokenizer", INDEX),
        ("corpus.mixture.alpha", 0.9, "corpus", TOKENIZER),
        ("model.layers", 3, "index", MODEL),
        ("training.optimizer.learning_rate", 0.005, "index", MODEL),
        ("export.dtype", "float32", "train", {"model tiny", "published tiny"}),
    ],
)
def test_after_an_edit_and_one_stage_everything_older_is_marked(
    edited: Callable[..., Workflow], key: str, value: Any, target: str, stale: set[str]
) -> None:
    workflow = edited(key, value)
    workflow.run(target)
    paths = RunPaths(workflow.run_folder)
    assert set(stale_artefacts(paths)) == stale
    facts = gather_summary(workflow.run_folder)
    rows = dict(lines(facts))
    marked = {name for name, text in rows.items() if "[OLDER THAN " in text}
    assert {"model", "parity", "generated text", "published"} <= marked
    assert ("training" in marked) == ("training" in stale)
    assert ("index" in marked) == ("index" in stale)
    assert ("tokenizer" in marked) == ("tokenizer" in stale)
    reports = {f"report {name}" for name in facts.reports if f"{name} report" in marked}
    assert reports == {name for name in stale if name.startswith("report ")}
    assert facts.rebuild_target == "publish"
    with pytest.raises(CheckFailedError, match="older than"):
        publish_run(
            read_stage(paths.config / "publish.json", PublishStage),
            paths,
            Place.of(paths.results / "publish" / "tiny.json"),
        )


def test_new_times_of_files_mark_nothing(finished: Workflow) -> None:
    paths = RunPaths(finished.run_folder)
    for path in (paths.corpus / "mixture.json", paths.config / "train.json", paths.tokenizer / "tokenizer.json"):
        path.touch()
    assert stale_artefacts(paths) == {}
    assert not any("OLDER" in text for _, text in lines(gather_summary(finished.run_folder)))


def test_every_page_states_what_it_was_made_from(finished: Workflow) -> None:
    inputs = {"corpus": "clean texts ", "tokenizer": "tokenizer ", "training": "finished training "}
    for name, words in inputs.items():
        page = RunPaths(finished.run_folder).report / f"{name}.html"
        origin = page.read_text(encoding="utf-8").partition("Made by Bloomery ")[2].partition("</p>")[0]
        assert words in origin


def test_what_a_finished_run_no_longer_needs_may_be_deleted(finished: Workflow, tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "tiny")
    shutil.copytree(finished.run_folder, run.run, symlinks=True)
    for folder in (run.corpus / "measures", run.corpus / "duplicates", run.checkpoints):
        shutil.rmtree(folder)
    for name in ("bin", "idx"):
        next(run.index.glob(f"tokens/*/00000.{name}")).unlink()
    links = {link.name: link for link in verify_run(run)}
    assert links["checkpoint"].not_present == 1
    assert links["token files"].not_present == 0, "the index has its own links to the token files"
    assert links["shards"].not_present > 0
    assert links["sources"].not_present == 0


@pytest.mark.parametrize(
    ("gone", "link"),
    [
        (("index/index.json", "results/index.json", "results/index"), "index and samples"),
        (("export",), "published model"),
        (("export/tiny/parity.json",), "published model"),
        (("results/publish/tiny/current/tiny/model.safetensors",), "published model"),
    ],
)
def test_what_proves_the_model_must_exist(finished: Workflow, tmp_path: Path, gone: tuple[str, ...], link: str) -> None:
    run = RunPaths(tmp_path / "tiny")
    shutil.copytree(finished.run_folder, run.run, symlinks=True)
    shutil.rmtree(run.checkpoints)  # The check of checkpoints also needs the index.
    for name in gone:
        path = run.run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    with pytest.raises(BloomeryError, match=f"{link}: .*(missing|no parity.json)"):
        verify_run(run)


def test_one_changed_byte_in_any_kind_of_file_is_found(finished: Workflow, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        bench = importlib.import_module("hostile_edits")
    run = tmp_path / "tiny"
    shutil.copytree(finished.run_folder, run, symlinks=True)
    assert {link.name for link in verify_run(RunPaths(run))} >= {"published model", "checkpoint", "shards", "sources"}
    edits = list(bench.hostile_edits(run, 1, seed=18))
    assert len({edit.kind for edit in edits}) > 30
    assert [edit for edit in edits if not edit.found] == []
