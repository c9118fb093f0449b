"""What the training reads is what `bloomery trace` says that a replica reads."""

from __future__ import annotations

import numpy as np

from bloomery.plan.layout import replica_of
from training.data.batches import micro_batches


def test_micro_batches_hold_the_samples_of_their_replica() -> None:
    first, samples, size, replicas = 40, 48, 4, 3

    def read(sample: int) -> np.ndarray:
        return np.arange(sample * 100, sample * 100 + 9, dtype=np.int64)

    seen = []
    for replica in range(replicas):
        for inputs, labels in micro_batches(read, first, samples, size, replica, replicas):
            assert inputs.shape == labels.shape == (size, 8)
            numbers = (inputs[:, 0] // 100).tolist()
            assert {replica_of(number, first, size, replicas) for number in numbers} == {replica}
            assert (labels - inputs == 1).all()
            seen += numbers
    assert sorted(seen) == list(range(first, first + samples))
