"""Test that a training whose replicas drift continues by itself, with the losses of an undisturbed training."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_training import make_run, stage
from forked_segments import ForkedSegments, run_main
from segments import records, steps

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.checkpoint import read_checkpoint
from bloomery.contracts.segment import SegmentStatus
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

Plan = set[tuple[int, int]]
"""Segment and iteration after which a state of rank 1 changes."""


def _rank_that_drifts(arguments: list[str], plan: Plan) -> None:
    """Run a segment. On rank 1, change one fp32 master weight after each iteration of the plan."""
    import os

    from training.loop import run_segment

    rank, train_step = int(os.environ["RANK"]), run_segment.train_step
    os.environ["SLURMD_NODENAME"] = f"node{rank + 7}"

    def drifting(run, planned):
        done = train_step(run, planned)
        if rank == 1 and (run.number, run.position.iteration) in plan:
            weight = run.trainer.network.local_modules()[2].input_layernorm.weight
            weight._hp_mapping.hp_fragment.data[3] += 0.5
        return done

    run_segment.train_step = drifting
    run_main(arguments)


def _losses(run: Path) -> dict[int, tuple[float, float]]:
    return {iteration: (record["loss"], record["grad_norm"]) for iteration, record in steps(run).items()}


def _sealed_weights(run: ForkedSegments) -> dict[str, str]:
    """Return the hash of every file of weights and reference logits in the run's checkpoints."""
    found = {}
    for folder in run.paths.checkpoints.glob("step*"):
        for name, entry in read_checkpoint(folder).files.items():
            if name.startswith(("layer_", "reference")):
                found[f"{folder.name}/{name}"] = entry.sha256
    assert found
    return found


def test_a_training_that_drifts_finishes_by_itself_with_the_losses_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Batches of 8 and then of 16 samples: 3 + 7 iterations. Saves are due after iterations 4 and 8 and at the end.
    configuration = stage(
        tensor=2,
        samples=136,
        checkpoint={"every_iterations": 4, "asynchronous": True},
        validation={"every_iterations": 100, "samples": 4},
        guards={"replicas_every_iterations": 3},
        segment={"max_crashes": 3},
    )
    runs = {}
    # The drifts are found by the regular comparison after iteration 6, and before the saves after iterations 8 and 10.
    for name, plan in {"undisturbed": set(), "drifting": {(1, 5), (2, 8), (3, 10)}}.items():
        run = tmp_path / name
        runs[name] = ForkedSegments(monkeypatch, run, make_run(run, configuration), _rank_that_drifts)
        runs[name].plan = plan
        segments = runs[name].chain()
    crashed = segments[:-1]
    assert [each.status for each in crashed] == [SegmentStatus.CRASHED] * 3
    assert [each.checkpoint for each in crashed] == ["step00000004", "step00000004", "step00000008"]
    assert (segments[-1].status, segments[-1].iteration) == (SegmentStatus.FINISHED, 10)
    for each in crashed:
        assert "h.0.input_layernorm.weight" in each.message
        assert "nodes to check: rank 0 on node node7, rank 1 on node node8" in each.message
    assert "earlier drifts of this training: iteration 6 (rank 0 on node node7, rank 1 on node node8)" in str(
        crashed[1].message
    )
    assert _losses(tmp_path / "drifting") == _losses(tmp_path / "undisturbed")
    incidents = [read_incident(path) for path in incident_files(runs["drifting"].paths.incidents)]
    assert [(each.iteration, each.event, each.action, each.segment) for each in incidents] == [
        (6, "drift", "restart", 1),
        (8, "drift", "restart", 2),
        (10, "drift", "restart", 3),
    ]
    assert all(each.nodes == {"0": "node7", "1": "node8"} for each in incidents)
    events = [record["iteration"] for record in records(tmp_path / "drifting") if record.get("event") == "drift"]
    assert events == [6, 8, 10]
    assert _sealed_weights(runs["drifting"]) == _sealed_weights(runs["undisturbed"])


def test_a_drift_that_returns_ends_the_chain_with_an_error_that_names_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = stage(
        tensor=2,
        samples=64,
        checkpoint={"every_iterations": 2},
        guards={"replicas_every_iterations": None},
        segment={"max_crashes": 1},
    )
    run = ForkedSegments(monkeypatch, tmp_path, make_run(tmp_path, configuration), _rank_that_drifts)
    run.plan = {(1, 2), (2, 2)}
    assert run.segment(1).status is SegmentStatus.CRASHED
    with pytest.raises(CheckFailedError, match="crashed 2 times") as caught:
        run.segment(2)
    assert str(caught.value).count("rank 1 on node node8") == 2, "the error must name the node of every drift"
    assert not list(run.paths.checkpoints.glob("step*"))
