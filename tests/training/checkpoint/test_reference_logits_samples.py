"""Test which samples the reference of a checkpoint has, and in which order its stages compute them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from training.checkpoint import reference_logits
from training.checkpoint.reference_logits import reference_samples


class Reader:
    """An index whose tokens state the number of the validation set and of the sample."""

    def __init__(self, sizes: dict[str, int], length: int) -> None:
        self.sizes, self.length, self.train_samples = sizes, length, 20
        self.validation_names = list(sizes)

    def validation_samples(self, name: str) -> int:
        return self.sizes[name]

    def validation(self, name: str, number: int) -> np.ndarray:
        return np.full(self.length + 1, 100 * self.validation_names.index(name) + number)

    def train(self, number: int) -> np.ndarray:
        return np.full(self.length + 1, number)


def long_samples(sizes: dict[str, int], length: int) -> list[tuple[str, int, int]]:
    """Return the name, the first token and the length of each longer sample."""
    found = reference_samples(Reader(sizes, length), length).long  # type: ignore[arg-type]
    return [(name, int(tokens[0]), len(tokens)) for name, tokens in found]


def test_the_validation_sets_take_turns() -> None:
    assert (
        long_samples({"a": 1, "b": 9, "empty": 0, "c": 9}, 128)
        == [
            ("a", 0, 128),
            ("b", 100, 128),
            ("c", 300, 128),
            *((name, first + number, 128) for number in (1, 2, 3) for name, first in (("b", 100), ("c", 300))),
        ][:8]
    )


@pytest.mark.parametrize(("length", "cut"), [(2048, 356), (512, 89), (128, 64), (32, 32)])
def test_each_of_46_validation_sets_has_one_sample_of_a_common_length(length: int, cut: int) -> None:
    names = [f"validation/{number}" for number in range(46)]
    found = long_samples(dict.fromkeys(names, 3), length)
    assert found == [(name, 100 * number, cut) for number, name in enumerate(names)]


def test_a_run_without_validation_sets_uses_training_samples() -> None:
    assert long_samples({"empty": 0}, 64) == [("train", number, 64) for number in range(8)]


def test_a_stage_sends_each_batch_before_it_computes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 12 stages, 9 batches then take the time of 20 batches on one stage instead of 108."""
    done: list[str] = []

    def compute(x: torch.Tensor) -> torch.Tensor:
        done.append(f"compute {len(x)}")
        return x

    def send(x: torch.Tensor, _rank: int) -> None:
        done.append(f"send {len(x)}")

    monkeypatch.setattr("torch.distributed.send", send)
    mesh: Any = SimpleNamespace(
        data_rank=0,
        pipeline_rank=0,
        tensor_rank=0,
        sequence_parallel=False,
        device=torch.device("cpu"),
        is_first_stage=True,
        is_last_stage=False,
        rank_of=lambda **_: 1,
    )
    network = SimpleNamespace(forward_funcs=[compute], local_modules=lambda: {"0": nn.Linear(1, 1)})
    trainer: Any = SimpleNamespace(mesh=mesh, network=network)
    batches = [torch.zeros(samples, 4, dtype=torch.int64) for samples in (3, 1, 2)]
    reference_logits._forward(trainer, batches, lambda *_: None)
    assert done == ["compute 3", "send 3", "compute 1", "send 1", "compute 2", "send 2"]
