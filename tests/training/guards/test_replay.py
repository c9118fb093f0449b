"""Test that a replay finds wrong arithmetic on one rank, and that it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records, steps

from bloomery.base.errors import CheckFailedError
from bloomery.config.stages import TrainStage
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _trained(configuration: TrainStage, folder: Path) -> dict[str, Any]:
    """Train to the end and return this rank's weights."""
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        train(run)
        return {name: weight.detach().clone() for name, weight in run.trainer.network.named_parameters()}


def _trained_twice(configuration: TrainStage, plain: TrainStage, folder: Path) -> list[str]:
    """Train with and without replays. Return the names of weights that differ."""
    import torch

    replayed, other = _trained(configuration, folder / "replayed"), _trained(plain, folder / "plain")
    return [name for name in other if not torch.equal(replayed[name], other[name])]


LAYOUTS: dict[str, dict[str, Any]] = {
    "TP2": {"parallel": {"tensor": 2, "sequence_parallel": True}, "activation_checkpointing": "full"},
    "PP2": {"parallel": {"pipeline": 2}, "precision": "fp16"},
    "DP2": {"parallel": {"data": 2}, "precision": "fp32"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_replays_of_healthy_ranks_report_and_change_nothing(layout: str, tmp_path: Path) -> None:
    configuration = stage(samples=40, guards={"replay_every_iterations": 1}, **LAYOUTS[layout])
    plain = stage(samples=40, **LAYOUTS[layout])
    assert run_ranks(_trained_twice, 2, configuration, plain, tmp_path) == [[], []]
    replayed, other = steps(tmp_path / "replayed"), steps(tmp_path / "plain")
    assert len(other) >= 3
    for values in ("loss", "grad_norm"):
        assert [step[values] for step in replayed.values()] == [step[values] for step in other.values()]
    assert not [record for record in records(tmp_path / "replayed") if "event" in record]


@contextmanager
def _wrong_bit(value: Any, calls: range) -> Iterator[None]:
    """Flip one bit of the gradient of `value` in the given calls of its backward pass."""
    import torch

    made = 0

    def flip(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal made
        made += 1
        if made - 1 in calls:
            gradient = gradient.clone()
            gradient.view(-1)[3:4].view(torch.uint8)[0] ^= 1
        return gradient

    handle = value.register_hook(flip)
    try:
        yield
    finally:
        handle.remove()


def _batch(run: Any) -> Any:
    from training.data.batches import micro_batches

    return next(micro_batches(run.reader.train, [3, 4], 2, 0, 1))


def _faulty_gradient(configuration: TrainStage, folder: Path) -> tuple[list[str | None], str | None]:
    """Return the messages of three replays, and the error of a training in which rank 1 computes a wrong bit."""
    from training.guards.replay import replay
    from training.loop.run_segment import train

    said: list[str | None] = []
    with opened(configuration, folder) as run:
        rank = run.trainer.mesh.rank
        os.environ["SLURMD_NODENAME"] = f"n{rank}"
        weight = run.trainer.network.local_modules()[2].mlp.dense_4h_to_h.weight
        # Three replays: without a fault, with a wrong first result (transient), and with wrong results only (lasting).
        for calls in (range(0), range(1), range(100)):
            with _wrong_bit(weight, calls if rank == 1 else range(0)):
                found = replay(run.trainer, _batch(run))
            said.append(found and found.message)
        with _wrong_bit(weight, range(10_000) if rank == 1 else range(0)):
            try:
                train(run)
            except CheckFailedError as error:
                return said, f"{error.what} ({error.where})"
        return said, None


def test_a_wrong_bit_in_the_gradient_of_one_rank_is_reported_with_rank_and_node(tmp_path: Path) -> None:
    """The wrong gradient reaches all replicas, so the comparison of the replicas in each iteration finds nothing."""
    guards = {"replicas_every_iterations": 1, "replay_every_iterations": 2}
    batch = {"micro_batch_size": 2, "global_batch_size": 12}
    configuration = stage(data=3, samples=120, guards=guards, batch=batch)
    answers = run_ranks(_faulty_gradient, 3, configuration, tmp_path)
    assert answers[0] == answers[1] == answers[2]
    (healthy, transient, lasting), error = answers[0]
    assert healthy is None
    name = "the gradient of h.0.mlp.dense_4h_to_h.weight"
    assert transient == (
        f"rank 1 on node n1 computed {name} twice from the same samples and weights, with different results"
    )
    odd = f"rank 1 on node n1 computed {name} differently from most replicas, from the same samples and weights"
    assert lasting == odd
    assert error == f"{odd} (iteration 2)"
    event = records(tmp_path)[-1]
    assert (event["event"], event["action"], event["iteration"], event["message"]) == ("replay", "stop", 2, odd)
    (incident,) = incident_files(tmp_path / "train" / "incidents")
    assert (read_incident(incident).event, read_incident(incident).message) == ("replay", odd)


def _faulty_stage(configuration: TrainStage, folder: Path) -> tuple[list[str], str]:
    """Return the messages of three replays in which rank 1 or rank 3 computes wrongly, and the status of a training.

    In this training, rank 3 computes wrongly.
    """
    import torch

    from training.guards.replay import replay
    from training.loop.run_segment import train

    said = []
    with opened(configuration, folder) as run:
        rank = run.trainer.mesh.rank
        os.environ["SLURMD_NODENAME"] = f"n{rank}"
        modules = run.trainer.network.local_modules()
        # Rank 1 is the first stage of the second replica. The fault spreads to the second stage and back.
        calls = 0

        def change_first_output(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            return output + 1 if calls == 1 else output

        if rank == 1:
            handle = modules[2].register_forward_hook(change_first_output)
        found = replay(run.trainer, _batch(run))
        if rank == 1:
            handle.remove()
        assert found is not None
        said.append(found.message)
        # Rank 3 makes an error in the gradient that it sends to the first stage.
        calls = 0

        def change_first_gradient(_module: Any, inputs: Any, _outputs: Any) -> Any:
            nonlocal calls
            calls += 1
            return (inputs[0] + 1,) if calls == 1 else inputs

        if rank == 3:
            handle = modules[min(modules)].register_full_backward_hook(change_first_gradient)
        found = replay(run.trainer, _batch(run))
        if rank == 3:
            handle.remove()
        assert found is not None
        said.append(found.message)
        # On rank 3, the gradient of the last LayerNorm's weight is wrong. Rank 3 is in the second stage.
        value = modules[max(modules) - 1].weight if rank == 3 else next(run.trainer.network.parameters())
        calls_of_value = range(10_000) if rank == 3 else range(0)
        with _wrong_bit(value, calls_of_value):
            found = replay(run.trainer, _batch(run))
            assert found is not None
            said.append(found.message)
            return said, train(run).status.value


def test_the_earliest_difference_names_the_stage_and_logging_continues(tmp_path: Path) -> None:
    guards = {"replay_every_iterations": 2, "replay_action": "log"}
    configuration = stage(pipeline=2, data=2, samples=40, guards=guards)
    answers = run_ranks(_faulty_stage, 4, configuration, tmp_path)
    assert answers[0] == answers[1] == answers[2] == answers[3]
    (forward, sent, backward), status = answers[0]
    assert forward == (
        "rank 1 on node n1 computed the output of pipeline layer 2 twice from the same samples and weights, with "
        "different results"
    )
    assert sent == (
        "rank 3 on node n3 computed the gradient of the input of pipeline layer 3 twice from the same samples and "
        "weights, with different results"
    )
    assert backward == (
        "rank 2 on node n2 and rank 3 on node n3 computed the gradient of ln_f.weight from the same samples and "
        "weights, with different results; each repeats its own result, so one of them is wrong, but it is unknown which"
    )
    assert status == "finished"
    events = [
        (record["event"], record["action"], record["iteration"]) for record in records(tmp_path) if "event" in record
    ]
    assert events == [("replay", "log", 2), ("replay", "log", 4)]
