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
from repository import ROOT
from segments import opened, steps
from transformers_source import NETWORKS, make_source

from bloomery.base.digest import digest_file
from bloomery.checks.load_config import validate_config
from bloomery.config.stages import TrainStage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.sample_reader import SampleReader
from bloomery.orchestration.stage_sections import stage_sections
from export.from_transformers.import_model import Layout, import_model

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ENTRIES = 290
"""Entries of the tokenizer of `make_source`."""
BATCH = 8


def _imported(folder: Path, kind: str, layout: Layout, *, dtype: str = "float32", **keys: Any) -> Any:
    """Import a model of a family to `folder`/in, make an index with its tokenizer, and return the model."""
    whole = make_source(folder / "source", kind, dtype=dtype, **keys)
    _import(folder / "source", folder, layout)
    return whole


def _import(source: Path, folder: Path, layout: Layout) -> None:
    """Import the model `source` to `folder`/in, and make an index with its tokenizer."""
    import_model(str(source), folder / "in", layout)
    make_index(folder / "run", 256, vocabulary=ENTRIES, tokenizer_digest=_digest(folder))


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


FAMILIES = tuple(NETWORKS)
LAYOUTS = [(tensor, pipeline) for tensor in (1, 2, 3, 4, 8) for pipeline in (1, 2, 4) if tensor * pipeline <= 8]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Return the folder and the model of each family."""
    folder = tmp_path_factory.mktemp("sources")
    return {kind: (folder / kind, make_source(folder / kind, kind, dtype="float32")) for kind in FAMILIES}


@pytest.mark.parametrize("number", range(len(LAYOUTS)), ids=[f"TP{each[0]}xPP{each[1]}" for each in LAYOUTS])
def test_the_first_loss_equals_that_of_transformers(tmp_path: Path, sources: Any, number: int) -> None:
    """The families take turns. The layout with both kinds of splits on the fewest ranks trains all of them."""
    tensor, pipeline = LAYOUTS[number]
    kinds = FAMILIES if (tensor, pipeline) == (2, 2) else (FAMILIES[number % len(FAMILIES)],)
    models = {kind: sources[kind][1] for kind in kinds}
    for kind in kinds:
        _import(sources[kind][0], tmp_path / kind, Layout(tensor, pipeline))
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


def _refused_with_reversed_rows(configuration: TrainStage, folder: Path) -> list[str]:
    """Load the rows of each matrix of one block in reverse order."""
    from training.checkpoint import load_initial_weights

    right = load_initial_weights._part

    def wrong(state: Any, saved: Any, wanted: range | None) -> torch.Tensor:
        found = right(state, saved, wanted)
        return found.flip(0) if saved.layer == 2 and found.dim() == 2 else found

    load_initial_weights._part = wrong
    return _refused([(configuration, folder)])


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", "0.05"), ("fp32", "0.0001")])
def test_a_wrong_load_is_refused_in_any_precision(tmp_path: Path, precision: str, tolerance: str) -> None:
    _imported(tmp_path, "bloom", Layout(1, 1))
    ((said,),) = run_ranks(_refused_with_reversed_rows, 1, _stage(tmp_path, precision), tmp_path / "run")
    assert "the loaded network differs from that of the checkpoint: loss on the reference batch" in said
    assert f"loss and logits with relative differences of at most {tolerance}; import the model again" in said


def test_the_shipped_configuration_trains_an_imported_fp16_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _imported(tmp_path, "bloom", Layout(1, 1), dtype="float16").float()
    monkeypatch.setenv("BLOOMERY_CORPUS", str(tmp_path))
    values = yaml.safe_load((ROOT / "config/continue-bloom-560m.yaml").read_text())
    keys = yaml.safe_load((tmp_path / "in/model.yaml").read_text())
    assert values["model"].keys() >= keys["model"].keys() - {"init_std"}
    values |= {"tokenizer": keys["tokenizer"], "model": keys["model"]}
    values["training"] |= keys["training"] | {"train_samples": 2 * BATCH, "parallel": {"data": 2}}
    values["training"]["batch"] = {"micro_batch_size": 2, "global_batch_size": BATCH}
    values["training"]["optimizer"] |= {"warmup_samples": BATCH}
    values["training"]["validation"] = {"every_iterations": 2, "samples": 4}
    config = validate_config(values)
    assert config.training.precision == "bf16"
    configuration = stage_sections(config)["train"]
    run_ranks(_train, 2, [(configuration, tmp_path / "run")])
    trained = steps(tmp_path / "run")
    assert abs(trained[1]["loss"] - _transformers_loss(whole, tmp_path / "run")) < 0.05
    assert trained[2]["loss"] != trained[1]["loss"]


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
