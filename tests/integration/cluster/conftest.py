"""Fixtures of a SLURM cluster and a Hub for the session, of a run on both, and of workflows on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hub_support import HubServer, running_hub
from slurm_cluster import SlurmCluster, missing_programs
from slurm_workflow import LOGS, LONG, MODEL, copy_untrained, end_workflows, iterations, paused, slurm_workflow
from waiting import wait_for
from workflow_support import TINY, Workflow

WHOLE_SECONDS = 1200
"""Time limit of the stages before training, which is enough for a busy machine."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if missing := missing_programs():
        pytest.skip(f"no {', '.join(missing)} here (apt-get install slurmctld slurmd slurm-client)")
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@dataclass(frozen=True)
class Published:
    """A finished run on the cluster, with its logs and its model on a Hub."""

    workflow: Workflow
    hub: HubServer
    sent_metrics: bytes
    """Content of metrics.jsonl on the Hub while the training ran."""
    tags: dict[str, str]
    """Commit of each tag of the model's repository after the end of the run."""
    newest_commit: str


@pytest.fixture(scope="session")
def published(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Run `LONG` to its end without disturbance and publish it on a Hub.

    Tests must change neither the run nor the Hub.
    """
    folder = tmp_path_factory.mktemp("undisturbed")
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        variables = {key: value for key, value in hub.environment.items() if key.startswith("HF_")}
        config = LONG | {"publish": {"hub": True, "sync_minutes": 0.2}}
        workflow = slurm_workflow(cluster, folder, config, **variables)
        process = workflow.start()
        try:
            wait_for(lambda: iterations(workflow) >= 40, WHOLE_SECONDS, process)
            with paused(folder):
                # A sync before the first iteration sends a file without losses.
                wait_for(lambda: b'"loss"' in _logged(hub), WHOLE_SECONDS, process, every=0.1)
                sent = _logged(hub)
            talk, _ = process.communicate(timeout=1800)
            assert process.returncode == 0, talk
            yield Published(workflow, hub, sent, hub.tags(MODEL), hub.commits(MODEL)[0])
        finally:
            end_workflows(folder)


def _logged(hub: HubServer) -> bytes:
    held = hub.paths(LOGS) if hub.has(LOGS) else []
    return hub.file(LOGS, "logs/metrics.jsonl") if "logs/metrics.jsonl" in held else b""


@pytest.fixture(scope="session")
def undisturbed(published: Published) -> Workflow:
    """Return the workflow of `published`. Tests must not change its losses."""
    return published.workflow


@pytest.fixture
def untrained(cluster: SlurmCluster, undisturbed: Workflow, tmp_path: Path) -> Iterator[Callable[..., Workflow]]:
    """Return a function that makes a workflow of `LONG` in its own folder.

    The results of all stages before training are copied to this folder.
    """
    copy_untrained(undisturbed.run_folder, tmp_path / undisturbed.run_folder.relative_to(undisturbed.folder))
    own = cluster
    yield lambda cluster=own, **options: slurm_workflow(cluster, tmp_path, LONG, **options)
    end_workflows(tmp_path)


@pytest.fixture
def on_cluster(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Callable[..., Workflow]]:
    """Return a function that makes a workflow on the cluster in its own folder."""
    yield lambda config=TINY, **options: slurm_workflow(cluster, tmp_path, config, **options)
    end_workflows(tmp_path)
