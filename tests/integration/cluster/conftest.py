"""A SLURM cluster for the session, and workflows that run on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, missing_programs
from slurm_workflow import LONG, end_workflows, slurm_workflow
from workflow_support import TINY, Workflow


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if missing := missing_programs():
        pytest.skip(f"no {', '.join(missing)} here (apt-get install slurmctld slurmd slurm-client)")
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="session")
def undisturbed(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """LONG, finished without trouble; tests leave its losses as they are."""
    workflow = slurm_workflow(cluster, tmp_path_factory.mktemp("undisturbed"), LONG)
    workflow.run()
    return workflow


@pytest.fixture
def untrained(cluster: SlurmCluster, undisturbed: Workflow, tmp_path: Path) -> Iterator[Callable[..., Workflow]]:
    """Make a copy of LONG in a folder of its own, with everything that comes before training."""
    source, target = undisturbed.run_folder, tmp_path / undisturbed.run_folder.relative_to(undisturbed.folder)
    for name in ("config", "corpus", "tokenizer", "index", "report"):
        shutil.copytree(source / name, target / name)
    (target / "report/training.html").unlink()
    yield lambda **options: slurm_workflow(cluster, tmp_path, LONG, **options)
    end_workflows(tmp_path)


@pytest.fixture
def on_cluster(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Callable[..., Workflow]]:
    """Make a workflow on the cluster in a folder of its own."""
    yield lambda config=TINY, **options: slurm_workflow(cluster, tmp_path, config, **options)
    end_workflows(tmp_path)
