"""Test the trace of a training that skips samples: which samples were read, and by which replica."""

from pathlib import Path

import pytest

from bloomery.config.stages import TrainStage, write_stage
from bloomery.contracts.metrics_record import MetricsRecord, dump_record
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.skips import effective
from data_prep.index.trace_batch import Training

SKIP = [{"from_sample": 10, "to_sample": 15}, {"from_sample": 30, "to_sample": 50}]


def make_stage(skip, size=8):
    return TrainStage.model_validate(
        {
            "name": "test",
            "seed": 7,
            "model": {"layers": 2, "hidden_size": 32, "heads": 4, "sequence_length": 16},
            "training": {
                "train_samples": 100,
                "parallel": {"data": 2},
                "batch": {"micro_batch_size": 2, "global_batch_size": size},
                "optimizer": {"learning_rate": 0.01},
                "skip": skip,
            },
        }
    )


def record(iteration, consumed, skipped, size=8):
    values = dict.fromkeys(MetricsRecord.model_fields, 0) | {
        "time": "2026-11-21T12:00:00Z",
        "mfu": None,
        "trust_ratios": None,
    }
    counts = {"consumed_samples": consumed, "skipped_samples": skipped, "global_batch_size": size, "loss": 3.0}
    counts |= {"total_iterations": 9, "sequence_length": 16}
    return MetricsRecord.model_validate(values | {"iteration": iteration, "grad_norm": 1.0} | counts)


@pytest.fixture
def training(tmp_path):
    def make(skip, records=(), size=8):
        paths = RunPaths(Path(tmp_path))
        write_stage(paths.config / "train.json", make_stage(skip, size))
        paths.logs.mkdir(parents=True, exist_ok=True)
        (paths.logs / "metrics.jsonl").write_text("".join(dump_record(each) + "\n" for each in records))
        assert effective(make_stage(skip, size), paths).training.skip == make_stage(skip, size).training.skip
        return Training.of(paths)

    return make


def test_a_batch_across_a_skipped_range_reads_the_samples_around_it(training):
    found = training(SKIP)
    batch = found.batch(2)
    assert (batch.first_sample, batch.samples, batch.spans) == (8, 8, ((8, 10), (15, 21)))
    assert batch.recorded is False
    # The two replicas take micro-batches of 2 in turn, also across a skipped range.
    assert found.select(2, 0).samples == [8, 9, 17, 18]
    assert found.select(2, 1).samples == [15, 16, 19, 20]
    assert [found.read_by(sample, batch) for sample in (9, 12, 15, 17)] == [(2, 0), None, (2, 1), (2, 0)]


def test_a_larger_micro_batch_is_distributed_in_larger_pieces(tmp_path):
    stage = make_stage([], 16).model_dump(mode="json")
    stage["training"]["batch"] |= {
        "rampup": {"start": 8, "increment": 8, "samples": 8},
        "micro_batch_changes": [{"from_batch": 16, "size": 4}],
    }
    paths = RunPaths(tmp_path)
    write_stage(paths.config / "train.json", TrainStage.model_validate(stage))
    found = Training.of(paths)
    assert found.select(1, 1).samples == [2, 3, 6, 7]
    assert found.select(2, 1).samples == [12, 13, 14, 15, 20, 21, 22, 23]
    assert [found.read_by(sample) for sample in (2, 10, 12, 19, 23)] == [(1, 1), (2, 0), (2, 1), (2, 0), (2, 1)]


def test_a_skipped_sample_is_read_by_no_replica(training):
    found = training(SKIP)
    assert found.read_by(12) is None
    assert found.read_by(15) == (2, 1)
    assert found.read_by(49) is None
    assert found.read_by(50) == (4, 0)
    assert found.read_by(99) is None  # the samples do not fill the last batch


def test_batches_trained_before_a_skip_was_configured_have_no_gap(training):
    # The three iterations were trained before the skip was configured, so the record shows no gap.
    found = training([SKIP[0]], [record(1, 8, 0), record(2, 16, 0), record(3, 24, 0)])
    assert found.batch(2).spans == ((8, 16),)
    assert found.batch(2).agrees is False
    # If the iterations were trained with the skip, the record and the configuration agree.
    found = training([SKIP[0]], [record(1, 8, 0), record(2, 21, 5), record(3, 29, 5)])
    assert found.batch(2).spans == ((8, 10), (15, 21))
    assert found.batch(2).agrees
    assert found.batch(3).spans == ((21, 29),)
