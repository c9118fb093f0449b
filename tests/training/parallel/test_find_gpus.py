"""Test that GPUs which torch does not find are an error, instead of a training on the CPU."""

from __future__ import annotations

import pytest
import torch

from bloomery.base.errors import ResourceError
from training.parallel.find_gpus import missing_gpus, use_gpus
from training.parallel.place import Place

PLACE = Place(rank=1, local_rank=1, world=4, local_world=2, host="node07")


def torch_finds(monkeypatch: pytest.MonkeyPatch, gpus: int, cuda: str | None = "12.8") -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.version, "cuda", cuda)


def test_gpus_that_were_given_and_are_not_found_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_finds(monkeypatch, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(ResourceError) as raised:
        use_gpus(PLACE)
    assert str(raised.value).startswith(
        "node07: this process was given 2 GPUs (CUDA_VISIBLE_DEVICES is 0,1), but torch finds no GPU; 2 processes of "
        "the training need one GPU each on this node; expected: all GPUs that the job requested"
    )


def test_a_build_of_torch_for_cpus_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_finds(monkeypatch, 0, cuda=None)
    missing = missing_gpus(PLACE, {"BLOOMERY_GPUS_PER_NODE": "2"})
    assert missing is not None
    assert missing.without_cuda
    assert f"torch {torch.__version__} cannot use GPUs" in missing.sentence
    assert "expected: torch with support for CUDA" in str(missing.error)


def test_fewer_gpus_than_processes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_finds(monkeypatch, 1)
    missing = missing_gpus(PLACE, {})
    assert missing is not None
    assert missing.sentence == "torch finds 1 GPU; 2 processes of the training need one GPU each on this node"


def test_enough_gpus_are_used_and_a_machine_without_gpus_trains_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    torch_finds(monkeypatch, 2)
    assert use_gpus(PLACE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    torch_finds(monkeypatch, 0)
    assert not use_gpus(PLACE)
