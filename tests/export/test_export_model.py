"""Test that a checkpoint of any tensor-parallel size is exported to the transformers model that it was made from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from bloomery.base.errors import InputError
from bloomery.contracts.checkpoint import layer_file, write_manifest
from bloomery.contracts.parity import read_parity
from bloomery.contracts.stale_artefacts import stale_artefacts
from bloomery.spec.parameters import declare
from bloomery.spec.transformers_families.choose import family_for_export
from export.export_model import export_model

pytestmark = pytest.mark.slow

EVERYTHING = {
    "README.md",
    "config.json",
    "generation_config.json",
    "loss_curve.png",
    "model.safetensors",
    "parity.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.mark.parametrize(
    ("tensor", "pipeline", "layers", "tied"),
    [(1, 1, 2, False), (2, 2, 11, False), (4, 1, 3, True), (4, 2, 2, False)],
)
def test_merged_weights_are_bit_equal_and_pass_the_parity_check(fabricate, tensor, pipeline, layers, tied):
    run = fabricate(tensor=tensor, pipeline=pipeline, layers=layers, tied_copy=tied)
    parity = export_model(run.stage, run.paths, run.target)

    assert {path.name for path in run.target.iterdir()} == EVERYTHING
    weights = load_file(run.target / "model.safetensors")
    family = family_for_export(run.stage.model)
    names = {family.target(parameter).name for parameter in declare(run.stage.model, run.manifest.vocabulary_rows)}
    assert weights.keys() == names
    whole = run.whole.state_dict()
    for name, tensor_ in weights.items():
        assert tensor_.dtype == torch.bfloat16
        assert torch.equal(tensor_, whole[name].bfloat16()), name
    assert parity.passed
    assert parity.max_difference < 1e-5
    assert parity.argmax_agreement == 1.0
    assert parity.parameters == sum(tensor_.numel() for tensor_ in weights.values())
    assert read_parity(run.target) == parity


def test_auto_classes_load_the_folder_and_generate(fabricate, monkeypatch, capsys):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = fabricate()
    parity = export_model(run.stage, run.paths, run.target)
    tokenizer = AutoTokenizer.from_pretrained(run.target)
    model = AutoModelForCausalLM.from_pretrained(run.target)
    assert model.dtype == torch.bfloat16
    assert model.lm_head.weight is model.transformer.word_embeddings.weight
    text = "the river runs to the sea"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    # The code of the model card runs as it is.
    monkeypatch.chdir(run.target)
    code = (run.target / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert capsys.readouterr().out.startswith("The river")
    config = model.config
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (1, 2, 3)
    assert (config.n_layer, config.n_head, config.hidden_size, config.seq_length) == (2, 4, 32, 32)
    assert (config.pretraining_tp, config.slow_but_exact, config.apply_residual_connection_post_layernorm) == (
        2,
        False,
        False,
    )
    generated = AutoModelForCausalLM.from_pretrained(run.target, dtype=torch.float32).generate(
        **tokenizer(parity.generations[0].prompt, return_tensors="pt", return_token_type_ids=False),
        max_new_tokens=4,
        do_sample=False,
    )
    assert generated.shape[1] > 1


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", "float32"), ("fp16", "float16")])
def test_weights_are_exported_in_their_own_data_type_without_change(fabricate, precision, dtype):
    run = fabricate(precision=precision)
    parity = export_model(run.with_export(dtype=dtype), run.paths, run.target)
    assert parity.dtype == dtype
    assert parity.rounded_to is None
    weights = load_file(run.target / "model.safetensors")
    whole = run.whole.state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights.items())


def test_float32_needs_the_optimizer_state_of_a_training_in_16_bits(fabricate):
    run = fabricate()
    with pytest.raises(
        InputError, match=r"no optimizer state .* exist only in bfloat16; expected: no key export.dtype"
    ):
        export_model(run.with_export(dtype="float32"), run.paths, run.target)
    assert not run.target.exists()


@pytest.mark.parametrize("vocabulary", ["keep", "trim"])
def test_padded_rows_are_kept_or_trimmed(fabricate, vocabulary):
    run = fabricate(tensor=4)
    parity = export_model(run.with_export(vocabulary=vocabulary), run.paths, run.target)
    rows = {"keep": run.manifest.vocabulary_rows, "trim": run.manifest.vocabulary_size}[vocabulary]
    weights = load_file(run.target / "model.safetensors")
    embedding = weights["transformer.word_embeddings.weight"]
    assert embedding.shape[0] == rows == parity.vocabulary_rows
    assert json.loads((run.target / "config.json").read_text())["vocab_size"] == rows
    assert torch.equal(embedding, run.whole.state_dict()["transformer.word_embeddings.weight"].bfloat16()[:rows])


def test_large_models_are_written_in_shards_with_an_index(fabricate):
    run = fabricate()
    export_model(run.stage, run.paths, run.target, max_shard_bytes=20_000)
    index = json.loads((run.target / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in run.target.glob("model-*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == files
    assert len(files) > 2
    assert not (run.target / "model.safetensors").exists()
    sizes = 0
    for name in files:
        with safe_open(run.target / name, framework="pt") as shard:
            assert shard.metadata() == {"format": "pt"}
            assert {key for key, file in index["weight_map"].items() if file == name} == set(shard.keys())
            sizes += sum(shard.get_tensor(key).nbytes for key in shard.keys())  # noqa: SIM118
    assert sizes == index["metadata"]["total_size"]


def test_a_second_export_gives_equal_bytes_and_replaces_the_old_folder(fabricate):
    run = fabricate()
    export_model(run.stage, run.paths, run.target)
    first = {path.name: path.read_bytes() for path in run.target.iterdir()}
    (run.target / "stale.safetensors").write_bytes(b"from an older export")
    export_model(run.stage, run.paths, run.target)
    assert {path.name: path.read_bytes() for path in run.target.iterdir()} == first
    assert sorted(path.name for path in run.paths.export.iterdir()) == [run.stage.model_name]


def test_names_of_layer_files_have_at_least_two_digits():
    assert layer_file(7, 3) == "layer_07-model_03-model_states.pt"
    assert layer_file(103, 12) == "layer_103-model_12-model_states.pt"


@pytest.mark.slow
def test_the_command_writes_the_folder_and_prints_its_path(fabricate):
    run = fabricate()
    command = ["bloomery.cli", "export", "model", "--config", str(run.paths.config / "export.json")]
    code = "import sys; from bloomery.cli import main; sys.argv = sys.argv[1:]; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "--run", str(run.paths.run), "--output", str(run.target)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(run.target)
    assert json.loads((run.target / "parity.json").read_text())["checkpoint"] == "step00000100"


def test_a_newer_checkpoint_does_not_make_the_model_of_a_chosen_one_out_of_date(fabricate):
    run = fabricate()
    newer = run.paths.checkpoints / "step00000200"
    shutil.copytree(run.checkpoint, newer)
    write_manifest(newer, run.manifest.model_copy(update={"iteration": 200}))
    name = f"model {run.stage.model_name}"
    assert not export_model(run.stage, run.paths, run.target).chosen
    assert stale_artefacts(run.paths)[name].older_than == "the training"
    assert export_model(run.stage, run.paths, run.target, checkpoint_name=run.checkpoint.name).chosen
    assert name not in stale_artefacts(run.paths)
    write_manifest(run.checkpoint, run.manifest.model_copy(update={"skipped_updates": 1}))
    assert stale_artefacts(run.paths)[name].older_than == f"the checkpoint {run.checkpoint.name}"
    shutil.rmtree(run.checkpoint)
    assert name not in stale_artefacts(run.paths)
