"""Test the reference of a checkpoint: every layout computes the same summaries, and the validation sets take turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fabricated_training import make_run, stage
from ranks import run_ranks

from bloomery.checkpoint.reference import read_reference, reference_tensors
from bloomery.contracts.index_manifest import read_index_manifest

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

ROWS = 512


def write_reference(run: Path, layout: dict[str, Any], target: Path) -> None:
    """Compute the reference of the initial network on this layout. The rank that has it writes it."""
    from safetensors.torch import save_file

    from bloomery.contracts.sample_reader import SampleReader
    from training.checkpoint.reference_logits import compute_reference, reference_samples
    from training.loop.build_engine import build_trainer
    from training.parallel.mesh import build_mesh

    configuration = stage(samples=16, **layout)
    trainer = build_trainer(configuration, build_mesh(configuration.training.parallel), ROWS)
    index = read_index_manifest(run / "index" / "index.json")
    samples = reference_samples(SampleReader(run / "index"), index.sequence_length)
    if (reference := compute_reference(trainer, samples, index.vocabulary_size)) is not None:
        assert not target.exists(), "only one rank has the reference"
        tensors, metadata = reference_tensors(reference)
        save_file(tensors, target, metadata)


@pytest.mark.parametrize(
    "layout",
    [
        {"tensor": 2},
        {"pipeline": 2},
        {"tensor": 2, "pipeline": 2, "parallel": {"tensor": 2, "pipeline": 2, "sequence_parallel": True}},
        {"data": 2},
    ],
    ids=["tensor 2", "pipeline 2", "tensor 2, pipeline 2, sequence", "data 2"],
)
def test_every_layout_computes_the_same_reference(tmp_path: Path, layout: dict[str, Any]) -> None:
    make_run(tmp_path / "run", stage(samples=16))
    found = []
    for name, parallel in (("one", {}), ("many", layout)):
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("data", 1)
        target = tmp_path / f"{name}.safetensors"
        run_ranks(write_reference, ranks, tmp_path / "run", {"precision": "fp32", **parallel}, target)
        found.append(read_reference(target, read_index_manifest(tmp_path / "run/index/index.json").vocabulary_size))
    one, many = found
    assert [each.name for each in one.long] == [each.name for each in many.long]
    assert [each.name for each in one.long] == [f"validation/{name}" for name in ("xx", "yy") * 4]
    torch.testing.assert_close(one.logits, many.logits, atol=1e-5, rtol=1e-5)
    for first, second in zip(one.long, many.long, strict=True):
        assert torch.equal(first.tokens, second.tokens)
        assert first.summary.loss == pytest.approx(second.summary.loss, abs=1e-5)
        for part in ("entry_logits", "log_sum", "greatest", "next_logits"):
            torch.testing.assert_close(
                getattr(first.summary, part), getattr(second.summary, part), atol=1e-5, rtol=1e-5
            )
