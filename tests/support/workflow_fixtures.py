"""Fixtures that several folders of tests share: one finished tiny run for the whole session, and copies of it."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest
from workflow_support import TINY, Workflow


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """Finish a tiny run. Tests must not change it."""
    workflow = Workflow(tmp_path_factory.mktemp("finished"), TINY)
    workflow.run()
    return workflow


@pytest.fixture
def indexed(finished: Workflow, tmp_path: Path) -> Workflow:
    """Copy the finished run to its own folder, without the results of training and later stages."""
    folder = tmp_path / "indexed"
    shutil.copytree(finished.folder, folder, symlinks=True)
    workflow = Workflow(folder, copy.deepcopy(TINY))
    results = ("results/export", "results/publish", "results/logs")
    for made in ("train", "export", "published", "logs/train_segment", *results):
        shutil.rmtree(workflow.run_folder / made, ignore_errors=True)
    for made in ("report/training.html", "results/report/training.json", "results/logs.json"):
        (workflow.run_folder / made).unlink()
    return workflow
