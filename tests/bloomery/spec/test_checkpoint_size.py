"""Test the planned bytes of a checkpoint against published sizes and against checkpoints that DeepSpeed writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fabricated_training import stage
from ranks import run_ranks
from safetensors.torch import save_file

from bloomery.checkpoint.reference import LongSample, Reference, SummaryMaker, reference_tensors
from bloomery.config.run import RunConfig
from bloomery.spec.checkpoint_size import checkpoint_bytes, checkpoint_size, summary_shape


def test_blooms_checkpoint_has_the_published_size(bloom: RunConfig) -> None:
    """BigScience states 2.3 TB and means TiB (train/tr11-176B-ml/README.md)."""
    assert round(checkpoint_bytes(bloom) / 2**40, 1) == 2.3


def test_the_last_stage_saves_the_optimizer_state_of_a_tied_embedding_again(bloom: RunConfig) -> None:
    parameters, embedding = 176_247_271_424, 250_880 * 14_336
    least = 14 * parameters + 12 * embedding
    # Copies of parameters that are not split, the reference logits and the files' overheads need less than 0.1 %.
    assert least < checkpoint_bytes(bloom) < 1.001 * least


@pytest.mark.parametrize(("momentum", "moments"), [(0.0, 0), (0.9, 1)])
def test_sgd_saves_fewer_moments_than_adam(momentum: float, moments: int) -> None:
    adam = stage(precision="fp32")
    sgd = stage(precision="fp32", optimizer={"kind": "sgd", "learning_rate": 0.1, "momentum": momentum})
    sizes = [checkpoint_size(each.model, each.training, 50_000).optimizer for each in (adam, sgd)]
    assert sizes[1] / sizes[0] == pytest.approx((1 + moments) / 3, rel=0.01)


def save_a_checkpoint(folder: Path, layout: dict[str, Any]) -> None:
    """Train two iterations, and save a checkpoint after the second iteration."""
    from segments import opened

    from training.loop.run_segment import train

    with opened(stage(samples=16, **layout), folder) as run:
        train(run)


LAMB = {"dialect": "innovation", "norms": "stale"}
"""A variant of LAMB with the largest state: three moments, and the sums of the last update."""


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize(
    "layout",
    [
        {"tensor": 2, "precision": "fp32", "optimizer": {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9}},
        {"data": 2, "precision": "fp16"},
        {"tensor": 2, "optimizer": {"kind": "lamb", "learning_rate": 0.01, "lamb": LAMB}},
    ],
    ids=["tensor 2, fp32, SGD", "data 2, fp16, Adam", "tensor 2, bf16, LAMB"],
)
def test_a_real_checkpoint_has_the_planned_size(tmp_path: Path, layout: dict[str, Any]) -> None:
    run_ranks(save_a_checkpoint, 2, tmp_path, layout)
    planned = stage(samples=16, **layout)
    (folder,) = (tmp_path / "train/checkpoints").glob("step*")
    size = checkpoint_size(planned.model, planned.training, 512)
    of = {"optimizer": "*optim_states.pt", "weights": "layer_*", "engine": "mp_rank_*"}
    for part, pattern in of.items():
        real = sum(path.stat().st_size for path in folder.glob(pattern))
        assert getattr(size, part) == pytest.approx(real, rel=0.05), part
    assert size.total == pytest.approx(sum(path.stat().st_size for path in folder.iterdir()), rel=0.05)


@pytest.mark.parametrize(
    ("sets", "length", "shape"),
    [(0, 2048, (8, 2048)), (8, 2048, (8, 2048)), (46, 2048, (46, 356)), (9, 2048, (9, 1820)), (46, 128, (46, 64))],
)
def test_many_validation_sets_share_the_positions_of_8_samples(sets: int, length: int, shape: tuple[int, int]) -> None:
    assert summary_shape(sets, length) == shape
    assert shape[0] * shape[1] <= 8 * max(length, 8 * sets)


@pytest.mark.parametrize(("sets", "length"), [(0, 32), (3, 64), (46, 128), (46, 512)])
def test_the_reference_has_the_planned_size(tmp_path: Path, sets: int, length: int) -> None:
    configuration = stage(samples=16)
    model = configuration.model.model_copy(update={"sequence_length": length})
    rows, (samples, cut) = 512, summary_shape(sets, length)
    names = [f"validation/l{number % max(1, sets):02}" for number in range(samples)]
    made = [SummaryMaker(torch.zeros(cut, dtype=torch.int64), 500) for _ in names]
    long = tuple(LongSample(name, maker._tokens, maker.summary()) for name, maker in zip(names, made, strict=True))
    tokens = torch.zeros(2, min(64, length), dtype=torch.int64)
    tensors, metadata = reference_tensors(Reference(tokens, torch.zeros(*tokens.shape, rows), long))
    save_file(tensors, tmp_path / "reference.safetensors", metadata)
    planned = checkpoint_size(model, configuration.training, rows, sets).reference
    assert (tmp_path / "reference.safetensors").stat().st_size == pytest.approx(planned, rel=0.002)
