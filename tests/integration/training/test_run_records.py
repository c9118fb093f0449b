"""Test the records of a real training on several ranks: the slow rank, energy, and a log of each rank."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, steps
from training_launcher import Launcher

from bloomery.config.stages import TrainStage
from bloomery.contracts.metrics_record import EnergyRecord
from bloomery.contracts.read_metrics import read_records, total_energy
from bloomery.detect.slow_rank import SlowRankDetector
from bloomery.spec.flops import iteration_flops

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

SLOW, SLEEP_SECONDS = 1, 0.2


def _train_with_a_slow_rank(configuration: TrainStage, folder: Path) -> None:
    """Train while rank `SLOW` sleeps in each forward pass of its first block, and the other rank waits for it."""
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        # The window of the detector is so small that a short test fills it.
        run.slow_ranks = SlowRankDetector([[0, 1]], window=4)
        if run.trainer.mesh.rank == SLOW:
            block = next(module for module in run.trainer.network.modules() if type(module).__name__ == "SelfAttention")
            block.register_forward_pre_hook(lambda *_: time.sleep(SLEEP_SECONDS))
        train(run)


def test_the_slowest_rank_is_the_rank_that_computes_and_not_the_rank_that_waits(tmp_path: Path) -> None:
    configuration = stage(
        tensor=2,
        samples=64,
        batch={"micro_batch_size": 4, "global_batch_size": 8},
        activation_checkpointing="none",
        validation={"every_iterations": 100, "samples": 2},
        checkpoint={"every_iterations": 100},
    )
    run_ranks(_train_with_a_slow_rank, 2, configuration, tmp_path)
    records = list(steps(tmp_path).values())[1:]  # the first iteration also warms up
    # An iteration has two micro-batches.
    slept = 2 * SLEEP_SECONDS
    assert [record["slowest_rank"] for record in records] == [SLOW] * len(records)
    assert all(record["slowest_seconds"] >= slept for record in records)
    assert all(record["slowest_seconds"] <= record["seconds"] for record in records)
    for record in records:
        # The vocabulary of 500 tokens has 512 rows. Nothing is recomputed, so hardware and model FLOPs are equal.
        tflops = iteration_flops(configuration.model, 512, 8, recomputed=False) / (record["seconds"] * 2 * 1e12)
        assert record["tflops_model"] == record["tflops_hardware"] == pytest.approx(tflops)
        assert record["tokens_per_second"] == pytest.approx(8 * 32 / record["seconds"])
    waited = [record["slowest_seconds"] - record["fastest_seconds"] for record in records]
    assert sorted(waited)[len(waited) // 2] > slept / 2
    log = (tmp_path / "train/logs/main_log.txt").read_text()
    assert f"rank {SLOW} computed" in log


def test_a_segment_records_its_energy_once_per_node_and_a_log_of_each_rank(launcher: Callable[..., Launcher]) -> None:
    run = launcher(data=2, samples=64, energy={"country": "FRA", "every_seconds": 0.5})
    run.segment()
    logs = run.run / "train/logs"
    energy = [record for record in read_records(logs / "metrics.jsonl") if isinstance(record, EnergyRecord)]
    assert [record.iteration for record in energy] == [1, max(run.losses())]
    assert {record.nodes for record in energy} == {1}, "two processes of one node measure its energy once"
    total = total_energy(logs / "metrics.jsonl")
    assert total is not None
    assert total.energy_kwh == energy[-1].energy_kwh > energy[0].energy_kwh >= 0
    assert energy[-1].estimated_kwh, "at least the energy of memory is estimated"
    for rank in (0, 1):
        text = (logs / f"ranks/{rank}.log").read_text()
        assert f"rank {rank}, process" in text
        assert f"tensor rank 0, pipeline rank 0, data rank {rank} of 1 x 1 x 2 ranks, on cpu" in text
        assert re.search(r"at most .* of main memory", text)
    assert "segment 1: starting" in (logs / "ranks/0.log").read_text()
    assert "kernels: attention " in (logs / "main_log.txt").read_text()
    assert "segment 1: starting" not in (logs / "ranks/1.log").read_text()
