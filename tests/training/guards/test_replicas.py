"""Test that drifted replicas are reported with their ranks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records

from bloomery.base.errors import TryAgainError
from bloomery.checkpoint.drift import DriftError
from bloomery.config.stages import TrainStage
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

CONFIGURATION = stage(
    tensor=2, pipeline=2, samples=200, guards={"replicas_every_iterations": 2}, checkpoint={"every_iterations": 1}
)


def test_a_change_of_any_single_element_changes_the_fingerprint() -> None:
    import torch

    from training.guards.replicas import fingerprint

    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(dtype)
        first = int(fingerprint(tensor))
        assert first == int(fingerprint(tensor.clone()))
        for place in (0, 499, 999):
            changed = tensor.clone()
            changed[place] += 2**-6
            assert int(fingerprint(changed)) != first
        swapped = tensor.clone()
        swapped[[0, 1]] = tensor[[1, 0]]
        assert int(fingerprint(swapped)) != first
    assert int(fingerprint(torch.zeros(3))) != int(fingerprint(torch.tensor([0.0, 0.0, -0.0])))


def _drift(configuration: TrainStage, folder: Path) -> list[str | None]:
    """Plant several drifts, undoing each before the next, and return the guard's errors.

    The last entry is the error of a segment in which a drift occurs.
    """
    import torch

    from training.guards.replicas import check_replicas, nodes_text
    from training.loop.run_segment import train

    said: list[str | None] = []
    with opened(configuration, folder) as run:
        rank, modules = run.trainer.mesh.rank, run.trainer.network.local_modules()
        os.environ["SLURMD_NODENAME"] = f"node{rank // 2}"

        def check() -> None:
            try:
                check_replicas(run.trainer, {"torch": torch.get_rng_state()}, 7)
                said.append(None)
            except DriftError as error:
                said.append(f"{error.what}; nodes to check: {nodes_text(error.nodes)} ({error.where})")

        check()
        block = modules[max(number for number in modules if hasattr(modules[number], "input_layernorm"))]
        embedding = modules[0 if 0 in modules else max(modules)].word_embeddings.weight
        for value, planted_on in ((block.input_layernorm.weight, 3), (embedding, 1)):
            kept = value.detach().clone()
            if rank == planted_on:
                value.data.view(-1)[5] += 0.01
            check()
            value.data.copy_(kept)
        if rank == 0:
            torch.rand(1)
        check()
        torch.manual_seed(1)
        # No other rank holds a copy of this tensor.
        split = block.mlp.dense_h_to_4h.weight._hp_mapping.hp_fragment
        kept = split.detach().clone()
        if rank == 2:
            split.data[7] += 0.1
        check()
        split.data.copy_(kept)
        run.trainer.engine.global_steps += rank == 0
        check()
        run.trainer.engine.global_steps -= rank == 0
        step = run.trainer.engine.train_batch

        def drifting(batches: object) -> object:
            loss = step(batches)
            if run.position.iteration == 2 and rank == 3:
                # The next update overwrites the weights from their fp32 master weights, so only a drift of the master
                # weights persists.
                block.post_attention_layernorm.bias._hp_mapping.hp_fragment.data[0] += 0.01
            return loss

        run.trainer.engine.train_batch = drifting
        with pytest.raises(TryAgainError) as caught:
            train(run)
        said.append(f"{caught.value.what} ({caught.value.where})")
        return said


def test_a_drift_of_one_value_on_one_rank_is_reported(tmp_path: Path) -> None:
    answers = run_ranks(_drift, 4, CONFIGURATION, tmp_path)
    assert answers[0] == answers[1] == answers[2] == answers[3]
    healthy, norm, embedding, numbers, split, steps, trained = answers[0]
    assert healthy is None
    assert norm is not None
    assert "h.1.input_layernorm.weight on rank 3 differs from that on rank 2; " in norm
    assert "h.1.input_layernorm.weight on rank 3 differ from their fp32 master weights; " in norm
    # With two copies, either of them may be wrong.
    assert norm.endswith("nodes to check: rank 2, 3 on node node1 (iteration 7)")
    assert "h.0" not in norm
    # The last stage holds a tied copy of the embedding as the head, so ranks 1 and 3 hold the same half.
    assert "word_embeddings.weight on rank 3 differs from that on rank 1" in str(embedding)
    assert "random number state (torch) on rank 0 differs from that on rank 1, 2, 3; " in str(numbers)
    assert "nodes to check: rank 0 on node node0 (iteration 7)" in str(numbers)
    assert "replicas differ: the weights of h.1.mlp.dense_h_to_4h.weight on rank 2 differ from their fp32" in str(split)
    assert "the step count or the loss scale on rank 0 differs from that on rank 1, 2, 3" in str(steps)
    # The drift in iteration 3 is found before the save, although the next regular comparison is after iteration 4.
    event = records(tmp_path)[-1]
    assert (event["event"], event["action"], event["iteration"]) == ("drift", "restart", 3)
    (incident,) = incident_files(tmp_path / "train" / "incidents")
    assert read_incident(incident).nodes == {"2": "node1", "3": "node1"}
    assert "the fp32 state of h.1.post_attention_layernorm.bias on rank 3 differs from that on rank 2" in str(trained)
    assert str(trained).endswith("(iteration 3)")
    saved = sorted(path.name for path in (tmp_path / "train" / "checkpoints").glob("step*"))
    assert saved == ["step00000001", "step00000002"]


def _drift_before_the_first_step(configuration: TrainStage, folder: Path) -> str:
    """Return the error of a segment whose data-parallel rank 1 starts with other weights and random numbers."""
    import random

    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        if run.trainer.mesh.rank == 1:
            next(iter(run.trainer.network.parameters())).data.view(-1)[5] += 0.01
            random.random()
        with pytest.raises(TryAgainError) as caught:
            train(run)
        return str(caught.value)


def test_replicas_and_their_random_numbers_are_compared_before_the_first_step(tmp_path: Path) -> None:
    for said in run_ranks(_drift_before_the_first_step, 2, stage(data=2), tmp_path):
        assert said.startswith(
            "iteration 0: replicas differ: word_embeddings.weight on rank 1 differs from that on rank 0; "
            "the random number state (python) on rank 1 differs from that on rank 0; "
        )
