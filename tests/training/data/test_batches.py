"""Test that training reads the samples that `bloomery trace` reports for each replica."""

from __future__ import annotations

import numpy as np

from bloomery.spec.layout import replica_of
from training.data.batches import micro_batches


def read(sample: int) -> np.ndarray:
    return np.arange(sample * 100, sample * 100 + 9, dtype=np.int64)


def test_micro_batches_hold_the_samples_of_their_replica() -> None:
    first, count, size, replicas = 40, 48, 4, 3
    seen = []
    for replica in range(replicas):
        for inputs, labels in micro_batches(read, range(first, first + count), size, replica, replicas):
            assert inputs.shape == labels.shape == (size, 8)
            numbers = (inputs[:, 0] // 100).tolist()
            assert {replica_of(number, first, size, replicas) for number in numbers} == {replica}
            assert (labels - inputs == 1).all()
            seen += numbers
    assert sorted(seen) == list(range(first, first + count))


def test_a_batch_with_a_gap_is_distributed_by_position_not_by_sample_number() -> None:
    samples = [3, 4, 90, 91]
    halves = [next(micro_batches(read, samples, 2, replica, 2))[0] for replica in range(2)]
    assert [(half[:, 0] // 100).tolist() for half in halves] == [[3, 4], [90, 91]]


def test_a_curriculum_uses_the_first_tokens_of_each_sample() -> None:
    inputs, labels = next(micro_batches(read, [7], 1, 0, 1, length=5))
    assert inputs.tolist() == [[700, 701, 702, 703, 704]]
    assert labels.tolist() == [[701, 702, 703, 704, 705]]


def test_micro_batches_cover_the_global_batch_on_every_layout():
    import numpy as np

    from training.data.batches import micro_batches

    def read(sample: int) -> np.ndarray:
        return np.full(5, sample, dtype=np.int64)

    for micro, data in ((1, 1), (2, 1), (2, 2), (1, 4)):
        seen = [
            int(row[0])
            for rank in range(data)
            for inputs, _ in micro_batches(read, range(100, 108), micro, rank, data)
            for row in inputs
        ]
        assert sorted(seen) == list(range(100, 108))
