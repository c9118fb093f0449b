"""Test that a validation loss is the mean over every sample of a set, on every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks
from segments import opened, records

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

COUNTS = (1, 3, 5)
"""Numbers of samples in the validation sets. Some are smaller than the number of replicas or are not a multiple of the
micro-batch size."""


def _losses(configuration: TrainStage, folder: Path) -> tuple[list[float], list[float]]:
    """Return the losses of sets with `COUNTS` samples.

    A single process also returns each sample's loss, computed with torch's own cross-entropy.
    """
    import torch

    from training.loop.validate import mean_loss

    with opened(configuration, folder) as run:

        def read(sample: int) -> object:
            return run.reader.validation("validation/xx", sample)

        found = [mean_loss(run.trainer, read, count) for count in COUNTS]
        # A repeated validation gives the same loss, so a validation leaves no state behind.
        before = found[-1]
        assert mean_loss(run.trainer, read, COUNTS[-1]) == before
        own = []
        if run.trainer.mesh.parallel.world_size == 1:
            with torch.no_grad():
                for sample in range(max(COUNTS)):
                    tokens = torch.from_numpy(read(sample))
                    x = tokens[:-1].unsqueeze(0)
                    for function in run.trainer.network.forward_funcs:
                        x = function(x)
                    own.append(float(torch.nn.functional.cross_entropy(x[0].float(), tokens[1:])))
        return found, own


def test_every_sample_counts_once_on_every_layout(tmp_path: Path) -> None:
    def losses(tensor: int, pipeline: int, data: int, micro: int) -> tuple[list[float], list[float]]:
        batch = {"micro_batch_size": micro, "global_batch_size": 4 * micro * data}
        configuration = stage(tensor=tensor, pipeline=pipeline, data=data, precision="fp32", batch=batch)
        folder = tmp_path / f"{tensor}{pipeline}{data}{micro}"
        return run_ranks(_losses, tensor * pipeline * data, configuration, folder)[0]

    expected, each = losses(1, 1, 1, 2)
    assert expected == pytest.approx([sum(each[:count]) / count for count in COUNTS], rel=1e-6)
    for layout in ((1, 1, 4, 1), (2, 2, 1, 4)):
        assert losses(*layout)[0] == pytest.approx(expected, rel=1e-6), layout


def _read_by_iteration(configuration: TrainStage, folder: Path) -> dict[int, list[tuple[str, int]]]:
    """Run three segments, and return the validation samples that were read after each iteration."""
    from training.loop.run_segment import train

    found: dict[int, list[tuple[str, int]]] = {}
    for number in (1, 2, 3):
        with opened(configuration, folder, number) as run:
            read = run.reader.validation

            def noted(name: str, sample: int, state: Any = run, read: Any = read) -> object:
                found.setdefault(state.position.iteration, []).append((name, sample))
                return read(name, sample)

            run.reader.validation = noted
            train(run)
    return found


def test_every_validation_reads_the_same_samples_and_a_restart_repeats_none(tmp_path: Path) -> None:
    # The second set contains only 4 samples.
    validation = {"every_iterations": 2, "samples": 6}
    configuration = stage(samples=64, validation=validation, segment={"iterations": 2})
    (found,) = run_ranks(_read_by_iteration, 1, configuration, tmp_path)
    assert sorted(found) == [2, 4, 5]
    sets = {"validation/xx": 6, "validation/yy": 4}
    for read in found.values():
        assert read == [(name, sample) for name, count in sets.items() for sample in range(count)]
    told = [record for record in records(tmp_path) if "validation" in record]
    assert [record["iteration"] for record in told] == [2, 4, 5]
    for record in told:
        # The mean weights all sets equally, so a language with little text counts as much as one with much text.
        first, second = record["validation"].values()
        assert abs(first - second) > 1e-4
        assert record["validation_mean"] == pytest.approx((first + second) / 2, rel=1e-12)
