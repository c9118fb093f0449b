"""Test a training that starts with an imported model: its first loss is that of transformers, on every layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fabricated_training import make_index, stage
from ranks import run_ranks
from segments import opened, steps
from transformers_source import NETWORKS, make_source

from bloomery.base.digest import digest_file
from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import SampleReader
from export.from_transformers.import_model import Layout, import_model

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ENTRIES = 290
"""Entries of the tokenizer of `make_source`."""
BATCH = 8


def _imported(folder: Path, kind: str, layout: Layout, **keys: Any) -> Any:
    """Import a model of a family to `folder`/in, make an index with its tokenizer, and return the model."""
    whole = make_source(folder / "source", kind, dtype="float32", **keys)
    import_model(str(folder / "source"), folder / "in", layout)
    digest = digest_file(folder / "in/tokenizer/tokenizer.json")
    make_index(folder / "run", 256, vocabulary=ENTRIES, tokenizer_digest=digest)
    return whole


def _stage(folder: Path, precision: str = "fp32", rows: int | None = None, **parallel: int) -> TrainStage:
    """Return the stage of a training that starts with the imported model in `folder`."""
    keys = yaml.safe_load((folder / "in/model.yaml").read_text())
    if rows is not None:
        keys["model"] |= {"padded_vocabulary_size": rows, "masked_rows": rows - 301}
    values = stage(precision=precision, **parallel).model_dump(mode="json")
    values["model"] = keys["model"]
    values["training"]["initial_checkpoint"] = keys["training"]["initial_checkpoint"]
    values["training"]["batch"] = {"micro_batch_size": 2, "global_batch_size": BATCH}
    values["training"]["train_samples"] = 2 * BATCH
    return TrainStage.model_validate(values)


def _transformers_loss(whole: Any, run: Path) -> float:
    """Return the loss of transformers on the samples of the first batch."""
    reader = SampleReader(run / "index")
    samples = torch.stack([torch.from_numpy(reader.train(number).astype("int64")) for number in range(BATCH)])
    with torch.no_grad():
        logits = whole(input_ids=samples[:, :-1]).logits.double()
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten()))


def _train(each: list[tuple[TrainStage, Path]]) -> list[float]:
    """Train each configuration for two iterations. Return the largest element of the masked rows of this rank."""
    from training.loop.run_segment import train

    found = []
    for configuration, folder in each:
        with opened(configuration, folder) as run:
            train(run)
            assert run.position.iteration == 2
            model, mesh = configuration.model, run.trainer.mesh
            first = run.trainer.vocabulary_rows // mesh.tensor_size * mesh.tensor_rank
            own = max(0, run.trainer.vocabulary_rows - model.masked_rows - first)
            rows = [value[own:] for name, value in run.trainer.network.named_parameters() if "word_emb" in name]
            found.append(max([float(value.detach().abs().max()) for value in rows if value.numel()], default=0.0))
    return found


@pytest.mark.parametrize(
    ("tensor", "pipeline", "kinds"), [(2, 2, tuple(NETWORKS)), (3, 1, ("bloom", "gpt2")), (8, 1, ("gpt2",))]
)
def test_the_first_loss_equals_that_of_transformers(tmp_path: Path, tensor: int, pipeline: int, kinds: Any) -> None:
    models = {kind: _imported(tmp_path / kind, kind, Layout(tensor, pipeline)) for kind in kinds}
    each = [(_stage(tmp_path / kind, tensor=tensor, pipeline=pipeline), tmp_path / kind / "run") for kind in kinds]
    masked = run_ranks(_train, tensor * pipeline, each)
    for kind, whole in models.items():
        trained = steps(tmp_path / kind / "run")
        assert abs(trained[1]["loss"] - _transformers_loss(whole, tmp_path / kind / "run")) < 1e-4
        assert trained[2]["loss"] != trained[1]["loss"]
    # Training left the masked rows at 0.
    assert {value for values in masked for value in values} == {0.0}


def test_a_training_may_have_another_layout_another_precision_and_other_masked_rows(tmp_path: Path) -> None:
    whole = _imported(tmp_path, "bloom", Layout(3, 1), tied_embeddings=False)
    configuration = _stage(tmp_path, rows=304, tensor=2)
    rounded = _stage(tmp_path, "bf16", rows=304, tensor=2)
    make_index(tmp_path / "rounded", 256, vocabulary=ENTRIES, tokenizer_digest=_digest(tmp_path))
    run_ranks(_train, 2, [(configuration, tmp_path / "run"), (rounded, tmp_path / "rounded")])
    expected = _transformers_loss(whole, tmp_path / "run")
    assert abs(steps(tmp_path / "run")[1]["loss"] - expected) < 1e-4
    assert abs(steps(tmp_path / "rounded")[1]["loss"] - expected) < 0.05


def _digest(folder: Path) -> str:
    return digest_file(folder / "in/tokenizer/tokenizer.json")


def _refused(each: list[tuple[TrainStage, Path]]) -> list[str]:
    from bloomery.base.errors import BloomeryError

    found = []
    for configuration, folder in each:
        try:
            with opened(configuration, folder):
                found.append("opened")
        except BloomeryError as error:
            found.append(str(error))
    return found


def test_wrong_starts_are_refused(tmp_path: Path) -> None:
    _imported(tmp_path, "bloom", Layout(1, 1))
    right = _stage(tmp_path)
    runs = [tmp_path / name for name in ("tokenizer", "network", "changed", "damaged")]
    for run in runs:
        digest = "other" if run.name == "tokenizer" else _digest(tmp_path)
        make_index(run, 256, vocabulary=ENTRIES, tokenizer_digest=digest)
    values = right.model_dump(mode="json")
    deeper = TrainStage.model_validate(values | {"model": values["model"] | {"layers": 5}})
    changed = TrainStage.model_validate(values | {"initial": {"digest": "0" * 64, "source": "old"}})
    (said,) = run_ranks(_refused, 1, [(right, runs[0]), (deeper, runs[1]), (changed, runs[2])])
    assert "tokenizer.existing: the tokenizer of the run is not that of the checkpoint" in said[0]
    assert "training.initial_checkpoint: the checkpoint has another network: model.layers is 4 there" in said[1]
    assert "the checkpoint has changed since the workflow started" in said[2]
    (layer,) = (RunPaths(tmp_path / "in").checkpoints / "step00000000").glob("layer_03-model_00*")
    content = bytearray(layer.read_bytes())
    content[len(content) // 2] ^= 1
    layer.write_bytes(content)
    ((problem,),) = run_ranks(_refused, 1, [(right, runs[3])])
    assert "the checkpoint is damaged" in problem
    assert layer.name in problem


def _resume(configuration: TrainStage, folder: Path) -> int:
    with opened(configuration, folder, number=2) as run:
        return int(run.position.iteration)


def test_a_resumed_training_needs_the_imported_folder_no_more(tmp_path: Path) -> None:
    _imported(tmp_path, "bloom", Layout(1, 1))
    configuration = _stage(tmp_path)
    run_ranks(_train, 1, [(configuration, tmp_path / "run")])
    (tmp_path / "in").rename(tmp_path / "moved")
    assert run_ranks(_resume, 1, configuration, tmp_path / "run") == [2]
    record = json.loads((tmp_path / "run/train/checkpoints/step00000002/manifest.json").read_text())
    assert record["config"]["training"]["initial_checkpoint"] == str(tmp_path / "in")
