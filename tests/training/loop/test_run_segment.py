"""Test the training loop with skipped samples, a curriculum, non-finite values, and a stop during validation."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records, steps

from bloomery.base.errors import CheckFailedError
from bloomery.config.stages import TrainStage
from bloomery.contracts.segment import SAVE_FILE, Segment, SegmentStatus
from bloomery.spec.trajectory import trajectory
from training.guards.incident import incident_files, read_incident

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def _segments(configuration: TrainStage, folder: Path, count: int) -> list[tuple[Segment, list[int]]]:
    """Run segments one after another in the same processes, and return each with the training samples that it read."""
    from training.loop.run_segment import train

    found = []
    for number in range(1, count + 1):
        with opened(configuration, folder, number) as run:
            read, seen = run.reader.train, []

            def noted(sample: int, read: Any = read, seen: list[int] = seen) -> Any:
                seen.append(sample)
                return read(sample)

            run.reader.train = noted
            found.append((train(run), seen))
    return found


def test_skipped_samples_are_never_read_even_across_a_restart(tmp_path: Path) -> None:
    skip = [{"from_sample": 20, "to_sample": 31}, {"from_sample": 31, "to_sample": 33}]
    configuration = stage(samples=96, skip=skip, segment={"iterations": 3}, validation={"every_iterations": 100})
    (pieces,) = run_ranks(_segments, 1, configuration, tmp_path, 3)
    seen = [sample for _, samples in pieces for sample in samples]
    last = next(piece for piece, _ in pieces if piece.status is SegmentStatus.FINISHED)
    assert seen == [n for n in range(last.consumed_samples) if not 20 <= n < 33]
    plan = trajectory(configuration.model, configuration.training)
    assert (last.iteration, last.consumed_samples) == (plan.iterations, plan.end.consumed_samples)
    assert last.consumed_tokens == len(seen) * configuration.model.sequence_length
    assert [record["skipped_samples"] for record in steps(tmp_path).values()][:4] == [0, 0, 13, 13]
    assert pieces[-1][1] == [], "a finished training must read no samples"


def test_curriculum_and_micro_batch_changes_give_equal_losses_on_any_layout(tmp_path: Path) -> None:
    def run(folder: str, pipeline: int, data: int, **batch: Any) -> dict[int, dict[str, Any]]:
        configuration = stage(
            pipeline=pipeline,
            data=data,
            precision="fp32",
            samples=96,
            batch={"global_batch_size": 16, "rampup": {"start": 8, "increment": 8, "samples": 24}} | batch,
            curriculum={"start_length": 8, "samples": 64},
            validation={"every_iterations": 2, "samples": 4},
        )
        segment = run_ranks(_segments, pipeline * data, configuration, tmp_path / folder, 1)[0][0][0]
        plan = trajectory(configuration.model, configuration.training)
        assert segment.consumed_tokens == plan.end.consumed_tokens
        found = steps(tmp_path / folder)
        for iteration, record in found.items():
            point = plan.after_iteration(iteration)
            assert record["sequence_length"] == point.sequence_length
            assert record["consumed_tokens"] == point.consumed_tokens
        assert len({record["sequence_length"] for record in found.values()}) >= 3
        return found

    one = run("one", 1, 1, micro_batch_size=4)
    # Each replica goes from 2 micro-batches of 2 samples to 2 of 4 samples while the samples get longer.
    split = run("split", 2, 2, micro_batch_size=2, micro_batch_changes=[{"from_batch": 16, "size": 4}])
    for iteration, record in one.items():
        assert split[iteration]["loss"] == pytest.approx(record["loss"], rel=2e-6), iteration
        assert split[iteration]["grad_norm"] == pytest.approx(record["grad_norm"], rel=1e-5), iteration


def _poisoned(configuration: TrainStage, folder: Path, bad: list[int], loud: tuple[int, ...] = ()) -> dict[str, Any]:
    """Run a segment in which rank 1's blocks output one NaN in each iteration of `bad`.

    In the iterations of `loud`, the gradient of the blocks' output is 1000 times too large on every rank. After a
    roll-back, the next segment runs too.
    """
    import torch

    from training.guards.replicas import fingerprint
    from training.loop.run_segment import train

    answer: dict[str, Any] = {}
    with opened(configuration, folder) as run:
        network, batch = run.trainer.network, run.trainer.engine.train_batch

        def poison(_module: object, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            # Reference logits are computed without gradients. If they are not finite, the save fails.
            trains = network.training and torch.is_grad_enabled()
            if run.trainer.mesh.rank == 1 and trains and run.position.iteration + 1 in bad:
                output = output.clone()
                output.view(-1)[3] = float("nan")
            if run.position.iteration + 1 in loud and output.requires_grad:
                output.register_hook(lambda gradient: 1e3 * gradient)
            return output

        for module in network.local_modules().values():
            if hasattr(module, "input_layernorm"):
                module.mlp.register_forward_hook(poison)
        weights: dict[int, list[int]] = {}

        def watched(batches: object) -> object:
            loss = batch(batches)
            weights[run.position.iteration + 1] = [int(fingerprint(value)) for value in network.parameters()]
            return loss

        run.trainer.engine.train_batch = watched
        try:
            answer["first"] = train(run)
        except CheckFailedError as error:
            answer["error"] = str(error)
        answer["weights"] = weights
    if "first" in answer and answer["first"].status is SegmentStatus.ROLLED_BACK:
        ((answer["second"], answer["seen"]),) = _segments(configuration, folder, 1)
    return answer


def test_a_non_finite_value_and_a_spike_change_no_weight(tmp_path: Path) -> None:
    guards = {"spike": {"window_iterations": 16, "action": "skip"}}
    configuration = stage(tensor=2, samples=168, guards=guards, validation={"every_iterations": 100})
    # The detector needs 8 earlier iterations to judge a spike.
    answers = run_ranks(_poisoned, 2, configuration, tmp_path, [4], (10,))
    for answer in answers:
        assert answer["first"].status is SegmentStatus.FINISHED
        same = [n for n in range(2, 12) if answer["weights"][n] == answer["weights"][n - 1]]
        assert same == [4, 10]
    found = steps(tmp_path)
    assert found[4]["loss"] is None
    assert found[10]["grad_norm"] > 100 * found[9]["grad_norm"]
    assert [n for n in found if found[n]["update_skipped"]] == [4, 10]
    assert (found[11]["skipped_updates"], found[11]["non_finite"]) == (2, 1)
    told = [(r["event"], r["action"], r["iteration"]) for r in records(tmp_path) if "event" in r]
    assert told == [("non_finite", "skip", 4), ("spike", "skip", 10)]
    poisoned, loud = (read_incident(path) for path in incident_files(tmp_path / "train" / "incidents"))
    assert (poisoned.from_sample, poisoned.to_sample, poisoned.values["loss"]) == (24, 40, None)
    assert (loud.from_sample, loud.to_sample, loud.values["grad_norm"]) == (120, 136, found[10]["grad_norm"])


def test_a_roll_back_resumes_from_an_earlier_checkpoint_without_the_samples(tmp_path: Path) -> None:
    guards = {"non_finite": "roll_back", "roll_back_iterations": 3}
    configuration = stage(pipeline=2, samples=120, guards=guards, validation={"every_iterations": 100})
    answer = run_ranks(_poisoned, 2, configuration, tmp_path, [6])[0]
    first, second = answer["first"], answer["second"]
    # The batch sizes are 8, 8, 8, 16, 16 and 16. Iteration 6 has samples 56 to 71, and the three iterations before it
    # start at sample 16.
    assert (first.status, first.checkpoint, first.iteration) == (SegmentStatus.ROLLED_BACK, "step00000002", 2)
    assert second.status is SegmentStatus.FINISHED
    assert second.first_iteration == 3
    # At position 16 the batch size is 8, and after the gap it is 16. The last 8 samples do not fill a batch.
    assert answer["seen"] == list(range(72, 112))
    assert steps(tmp_path)[3]["skipped_samples"] == 56
    assert (tmp_path / "train" / "rolled-back" / "1" / "step00000004" / "manifest.json").exists()


def test_too_many_skipped_updates_fail_the_training_on_every_rank(tmp_path: Path) -> None:
    configuration = stage(tensor=2, samples=200, guards={"max_skipped_updates": 2})
    for answer in run_ranks(_poisoned, 2, configuration, tmp_path, list(range(3, 20))):
        assert "3 updates in a row were skipped" in answer["error"]
        assert "iteration 5, samples 40 to 55" in answer["error"]
    assert [record["action"] for record in records(tmp_path) if "event" in record] == ["skip", "skip", "stop"]


def _all_left_out(configuration: TrainStage, folder: Path) -> str:
    """Train two segments in which no loss is finite, and return the error."""
    from training.loop.run_segment import train

    for number in (1, 2):
        with opened(configuration, folder, number) as run:

            def lost(batches: object, step: Any = run.trainer.engine.train_batch) -> float:
                step(batches)
                return float("nan")

            run.trainer.engine.train_batch, run.trainer.gate.decide = lost, lambda _norm: True
            try:
                train(run)
            except CheckFailedError as error:
                return f"segment {number}: {error.what}"
    return "went on"


def test_skipped_updates_before_a_restart_count_after_it(tmp_path: Path) -> None:
    configuration = stage(samples=200, guards={"max_skipped_updates": 2}, segment={"iterations": 2})
    (said,) = run_ranks(_all_left_out, 1, configuration, tmp_path)
    assert said.startswith(
        "segment 2: the loss is nan at iteration 3; the training stops, because 3 updates in a row were skipped"
    )


def _interrupted(configuration: TrainStage, folder: Path) -> tuple[Segment, Segment]:
    """Send SIGTERM only to rank 1 while it reads the first validation set, then run the next segment."""
    from training.loop.run_segment import train

    with opened(configuration, folder) as run:
        read, sent = run.reader.validation, []

        def noted(name: str, sample: int) -> Any:
            if run.trainer.mesh.rank == 1 and not sent:
                sent.append(os.kill(os.getpid(), signal.SIGTERM))
            return read(name, sample)

        run.reader.validation = noted
        first = train(run)
    if run.trainer.mesh.rank == 0:
        # This save request arrives when the training is exactly at a checkpoint.
        (run.paths.control / SAVE_FILE).parent.mkdir(parents=True)
        (run.paths.control / SAVE_FILE).touch()
    ((second, _),) = _segments(configuration, folder, 1)
    return first, second


def test_the_next_segment_repeats_a_validation_that_sigterm_interrupted(tmp_path: Path) -> None:
    configuration = stage(pipeline=2, samples=64, checkpoint={"every_iterations": 100})
    calm = run_ranks(_segments, 2, configuration, tmp_path / "calm", 1)[0][0][0]
    for first, second in run_ranks(_interrupted, 2, configuration, tmp_path / "stopped"):
        assert (first.status, first.iteration, first.checkpoint) == (SegmentStatus.STOPPED, 3, "step00000003")
        assert (second.status, second.first_iteration) == (calm.status, 4)
    saved = (tmp_path / "stopped" / "train" / "checkpoints").glob("*/manifest.json")
    assert sorted(path.parent.name for path in saved) == ["step00000003", "step00000005"]

    def told(folder: str) -> list[tuple[Any, ...]]:
        kinds = ("loss", "grad_norm", "validation")
        return [(r["iteration"], *(r.get(key) for key in kinds)) for r in records(tmp_path / folder)]

    assert told("stopped") == told("calm")


WRITING_SECONDS = 0.3


def _slowly_written(configuration: TrainStage, folder: Path) -> tuple[Segment, float, int]:
    """Run a segment with slow background saves.

    Return the segment, the seconds of its longest save, and the number of batch times that DeepSpeed has collected.
    """
    from deepspeed.runtime.pipe.engine import TRAIN_BATCH_TIMER

    from training.checkpoint.shard_writer import ShardWriter
    from training.loop.run_segment import train

    write = ShardWriter._write_waiting

    def slowly(self: Any) -> None:
        time.sleep(WRITING_SECONDS)
        write(self)

    with patch.object(ShardWriter, "_write_waiting", slowly), opened(configuration, folder) as run:
        segment = train(run)
        timer = run.trainer.engine.timers(TRAIN_BATCH_TIMER)
        return segment, run.deadline._save_seconds, len(timer.event_timers)


def test_training_continues_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    checkpoint = {"every_iterations": 2, "asynchronous": True}
    configuration = stage(data=2, samples=64, checkpoint=checkpoint, validation={"every_iterations": 100})
    segment, longest_save, batches_timed = run_ranks(_slowly_written, 2, configuration, tmp_path)[0]
    assert (segment.status, segment.checkpoint) == (SegmentStatus.FINISHED, "step00000005")
    assert longest_save >= WRITING_SECONDS, "the deadline must reserve time for the longest save"
    assert batches_timed == 0, "DeepSpeed must not accumulate times over the iterations"
    waited = [step["iteration"] for step in steps(tmp_path).values() if step.get("save_seconds", 0) > 0]
    # The wait of the last save is not recorded, because this save follows the last record.
    assert {3, 5} <= set(waited)
    assert {1, 2}.isdisjoint(waited)
    log = (tmp_path / "train" / "logs" / "main_log.txt").read_text()
    for name in ("step00000002", "step00000004"):
        assert re.search(f"checkpoint {name} is being written; training waited [0-9.]+ s\n", log)
        written = re.search(f"checkpoint {name} was written in ([0-9.]+) s; training waited [0-9.]+ s\n", log)
        assert written, "the log must state the duration of a background save and how long the training waited"
        assert float(written[1]) >= WRITING_SECONDS
        assert (tmp_path / "train" / "checkpoints" / name / "manifest.json").exists()
    assert re.search("saved checkpoint step00000005; training waited [0-9.]+ s\n", log)
