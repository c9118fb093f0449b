"""Test the import of a transformers model: every layout holds exactly the weights of the source."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from repository import ROOT
from safetensors.torch import load_file
from transformers_source import NETWORKS, make_source

from bloomery.base.errors import ConfigError, InputError
from bloomery.checkpoint.weights import Checkpoint
from bloomery.config.model import ModelConfig
from bloomery.config.stages import ExportStage, read_stage
from bloomery.contracts.initial_checkpoint import imported_checkpoint, read_import
from bloomery.contracts.paths import RunPaths
from bloomery.spec.transformers_families.choose import family_for_export
from export.export_model import export_model
from export.from_transformers.import_model import Layout, import_model
from export.transform import to_transformers

ROWS = 301
"""Rows of the embedding. No tensor-parallel size above 1 that is tested divides them."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of each family, tied and untied, and a model of 101 blocks."""
    folder = tmp_path_factory.mktemp("sources")
    for kind in NETWORKS:
        make_source(folder / kind, kind)
        make_source(folder / f"{kind}-untied", kind, tied_embeddings=False, dtype="float32")
    # The greedy texts of the export read every block for each token. A short length makes these texts short.
    make_source(folder / "deep", "gpt_neox", layers=101, sequence_length=8)
    return folder


def exported(folder: Path, target: Path) -> dict[str, torch.Tensor]:
    """Export an imported folder without training, and return the weights."""
    paths = RunPaths(folder)
    stage = read_stage(paths.config / "export.json", ExportStage)
    parity = export_model(stage, paths, target, checkpoint_name="step00000000")
    assert parity.max_difference < 1e-5
    return load_file(target / "model.safetensors")


def bits(tensors: dict[str, torch.Tensor]) -> dict[str, tuple[torch.dtype, tuple[int, ...], bytes]]:
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.contiguous().view(torch.uint8).numpy().tobytes())
        for name, tensor in tensors.items()
    }


def tensors_in(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the weights in the layer files under their names in transformers, without rows that the layout added."""
    opened, found = Checkpoint(checkpoint), {}
    family = family_for_export(opened.model)
    for parameter in opened.parameters:
        target = family.target(parameter)
        dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[opened.trained_with("precision")]
        weight = opened.weight(parameter, dtype)
        if parameter.name in ("word_embeddings.weight", "lm_head.weight"):
            assert not weight[ROWS:].any()
            weight = weight[:ROWS]
        found[family.saved_name(target.name)] = to_transformers(weight, target.transform, opened.model.heads)
    return found


@pytest.mark.parametrize(("source", "layout"), [("bloom", Layout(3, 2)), ("gpt2-untied", Layout(2, 1))])
def test_an_export_of_an_imported_model_has_the_bits_of_the_source(sources, tmp_path, source, layout):
    import_model(str(sources / source), tmp_path / "in", layout)
    assert bits(exported(tmp_path / "in", tmp_path / "out")) == bits(load_file(sources / source / "model.safetensors"))
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (sources / source / "tokenizer.json").read_bytes()
    values = json.loads((tmp_path / "out/config.json").read_text())
    before = json.loads((sources / source / "config.json").read_text())
    for key in ("vocab_size", "model_type", "architectures", "tie_word_embeddings", "eos_token_id"):
        assert values[key] == before[key], key


SIZES = [(tensor, pipeline) for tensor in (1, 2, 3, 4, 8, 16) for pipeline in (1, 2, 4)]
FAMILIES = ("bloom", "gpt2", "gpt_neox-untied", "gpt2-untied", "gpt_neox", "bloom-untied")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "size"), list(enumerate(SIZES)), ids=[f"TP{t}xPP{p}" for t, p in SIZES])
def test_an_import_and_an_export_of_every_layout_keep_every_bit(sources, tmp_path, number, size):
    # The shift after each cycle pairs each pipeline size with all families, and each tensor size with three families.
    source = FAMILIES[(number + number // len(FAMILIES)) % len(FAMILIES)]
    import_model(str(sources / source), tmp_path / "in", Layout(*size))
    checkpoint = imported_checkpoint(tmp_path / "in")
    expected = bits(load_file(sources / source / "model.safetensors"))
    assert bits(tensors_in(checkpoint)) == expected
    assert bits(exported(tmp_path / "in", tmp_path / "out")) == expected
    manifest = Checkpoint(checkpoint).manifest
    assert (manifest.tensor_parallel, manifest.pipeline_parallel) == size
    assert manifest.vocabulary_rows == -(-ROWS // size[0]) * size[0]


@pytest.mark.slow
def test_a_model_of_101_blocks_keeps_their_order(sources, tmp_path):
    import_model(str(sources / "deep"), tmp_path / "in", Layout(2, 4))
    assert bits(exported(tmp_path / "in", tmp_path / "out")) == bits(load_file(sources / "deep" / "model.safetensors"))


def test_the_written_keys_describe_the_network_and_name_the_files(sources, tmp_path):
    import_model(str(sources / "gpt2"), tmp_path / "in", Layout(2, 1))
    keys = yaml.safe_load((tmp_path / "in/model.yaml").read_text())
    model = ModelConfig.model_validate(keys["model"])
    assert (model.layers, model.ffn_size, model.positions, model.padded_vocabulary_size) == (4, 96, "learned", 302)
    assert keys["tokenizer"] == {"existing": str(tmp_path / "in/tokenizer"), "vocabulary_size": 290}
    assert keys["training"] == {"initial_checkpoint": str(tmp_path / "in")}
    assert model.masked_rows == 1
    record = read_import(tmp_path / "in")
    assert record.shown == "gpt2"
    assert record.files.keys() == {"config.json", "model.safetensors"}


def test_a_second_import_into_the_same_folder_is_refused(sources, tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError, match=r"exists already.*new folder"):
        import_model(str(sources / "bloom"), tmp_path / "in")


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(5, 1), r"--tensor: the 48 heads of the model cannot be divided among 5 .*a divisor of 48"),
        (Layout(1, 5), r"--pipeline: 5 pipeline stages are too many for 4 blocks"),
    ],
)
def test_a_layout_that_the_network_does_not_fit_is_refused_before_anything_is_written(sources, tmp_path, layout, said):
    with pytest.raises(ConfigError, match=said):
        import_model(str(sources / "bloom"), tmp_path / "in", layout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_import_leaves_nothing_at_the_target_and_can_be_repeated(sources, tmp_path):
    """Kill the command when the first file of the checkpoint appears, then run it again."""
    command = [sys.executable, "-m", "bloomery.cli", "import", "hf", str(sources / "bloom"), "--tensor", "16"]
    command += ["--output", str(tmp_path / "in")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not list((tmp_path).glob(".in.tmp/train/**/layer_*.pt")):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "in").exists()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'in'}\n"), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert bits(tensors_in(imported_checkpoint(tmp_path / "in"))) == bits(
        load_file(sources / "bloom/model.safetensors")
    )


def test_equal_imports_have_equal_bytes(sources, tmp_path, monkeypatch):
    import_model(str(sources / "bloom"), tmp_path / "a/in", Layout(2, 2))
    monkeypatch.chdir(sources / "bloom")
    import_model(".", tmp_path / "b/in", Layout(2, 2))
    names = [path.relative_to(tmp_path / "a") for path in sorted((tmp_path / "a").rglob("*")) if path.is_file()]
    # Only model.yaml contains the path of the folder.
    different = [name for name in names if (tmp_path / "a" / name).read_bytes() != (tmp_path / "b" / name).read_bytes()]
    assert different == [Path("in/model.yaml")]


def test_the_checkpoint_of_a_moved_source_has_the_same_manifest(sources, tmp_path):
    """A training that started with the checkpoint of the first import can use that of the second."""
    import_model(str(sources / "bloom"), tmp_path / "a/in")
    shutil.copytree(sources / "bloom", tmp_path / "renamed")
    import_model(str(tmp_path / "renamed"), tmp_path / "b/in")
    first, second = (imported_checkpoint(tmp_path / name / "in") / "manifest.json" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert read_import(tmp_path / "b/in").shown == "renamed"
