"""Test that checkpoints of Megatron-DeepSpeed become the transformers models that they were made from."""

from __future__ import annotations

import json
import math

import pytest
import torch
from fabricated_export import make_tokenizer
from fabricated_megatron import ENTRIES, NETWORKS, ROWS, fabricate_layers, fabricate_universal
from safetensors.torch import load_file
from typer.testing import CliRunner

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.drift import DriftError
from bloomery.checkpoint.merge import assemble
from bloomery.cli import app
from bloomery.contracts.parity import read_parity
from bloomery.spec.transformers_families.choose import family_for_export
from bloomery.spec.transformers_families.family import HEAD
from export.foreign_export import ForeignSettings, export_foreign
from export.model_bundle import model_bundle

pytestmark = pytest.mark.slow

NORM = "input_layernorm.weight"
PLAIN = ForeignSettings()


@pytest.mark.parametrize(
    ("name", "ranks", "layers", "dtype"),
    [
        ("bloom", 12, 2, torch.bfloat16),
        ("bloom", 1, 2, torch.float16),
        ("gpt2", 2, 3, torch.float16),
        ("gpt_neox", 4, 2, torch.float32),
    ],
)
def test_layer_files_give_the_model_that_they_were_cut_from(tmp_path, name, ranks, layers, dtype):
    from transformers import AutoModelForCausalLM

    made, target = fabricate_layers(tmp_path, NETWORKS[name], ranks=ranks, layers=layers, dtype=dtype), tmp_path / "out"
    parity = export_foreign(made.folder, target, PLAIN)
    assert parity.passed
    assert parity.max_difference < 1e-5
    assert (parity.iteration, parity.consumed_tokens, parity.checkpoint) == (95000, 366_000_000, "global_step95000")
    weights, whole = load_file(target / "model.safetensors"), made.whole.state_dict()
    assert weights.keys() == whole.keys() - {HEAD}
    assert all(torch.equal(tensor, whole[key].to(dtype)) for key, tensor in weights.items())
    assert {tensor.dtype for tensor in weights.values()} == {dtype}
    loaded = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        assert torch.equal(loaded(input_ids=tokens).logits, made.whole(input_ids=tokens).logits)


def test_every_file_of_the_folder_is_listed_and_can_be_published(tmp_path):
    made, target = fabricate_layers(tmp_path), tmp_path / "out"
    make_tokenizer(tmp_path / "tokenizer")
    parity = export_foreign(made.folder, target, ForeignSettings(tokenizer=tmp_path / "tokenizer"))
    assert read_parity(target) == parity
    assert model_bundle(target, "out")[1] == parity
    assert parity.generations
    assert {path.name for path in target.iterdir()} == {"parity.json", *parity.files}
    source = json.loads((target / "source.json").read_text())
    assert source["files"].keys() == {path.name for path in made.folder.iterdir()}
    assert source["tensor_parallel"] == 2
    card = (target / "README.md").read_text()
    assert "Replicas that differed" not in card
    assert "iteration 95,000" in card
    first = {path.name: path.read_bytes() for path in target.iterdir()}
    export_foreign(made.folder, target, ForeignSettings(tokenizer=tmp_path / "tokenizer"))
    assert {path.name: path.read_bytes() for path in target.iterdir()} == first


def test_old_files_of_torch_give_the_same_weights_and_a_message(tmp_path, capsys):
    for zipped in (True, False):
        made = fabricate_layers(tmp_path / str(zipped), zipped=zipped)
        assert made.path(1, 0).read_bytes().startswith(b"PK") is zipped
        export_foreign(made.folder, tmp_path / f"{zipped}-out", PLAIN)
    new, old = (load_file(tmp_path / f"{zipped}-out" / "model.safetensors") for zipped in (True, False))
    assert new.keys() == old.keys()
    assert all(torch.equal(new[name], tensor) for name, tensor in old.items())
    messages = capsys.readouterr().err
    assert messages.count("read into memory as a whole") == 1
    assert str(tmp_path / "False") in messages


@pytest.mark.parametrize(("vocabulary", "rows"), [("keep", ROWS), ("trim", ENTRIES)])
@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_padded_rows_are_kept_or_trimmed(tmp_path, vocabulary, rows, has_tokenizer):
    made = fabricate_layers(tmp_path, ranks=4)
    assert make_tokenizer(tmp_path / "tokenizer") == ENTRIES
    tokenizer = tmp_path / "tokenizer" if has_tokenizer else None
    parity = export_foreign(made.folder, tmp_path / "out", ForeignSettings(vocabulary=vocabulary, tokenizer=tokenizer))
    words = load_file(tmp_path / "out" / "model.safetensors")["transformer.word_embeddings.weight"]
    assert len(words) == parity.vocabulary_rows == rows
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["vocab_size"], config["bos_token_id"]) == (rows, 1 if has_tokenizer else None)


def drifted(tmp_path):
    made = fabricate_layers(tmp_path, ranks=3)

    def change(state):
        state[NORM] += 0.25

    made.edit(3, 2, change)
    return made


def test_drifted_replicas_are_named_and_nothing_is_written(tmp_path):
    made = drifted(tmp_path)
    with pytest.raises(
        DriftError, match=r"replicas of 1 parameters .* h\.0\.input_layernorm\.weight .*--on-drift rank0"
    ):
        export_foreign(made.folder, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("on_drift", ["mean-fp32", "rank0"])
def test_drifted_replicas_are_replaced_on_request_and_the_card_says_so(tmp_path, on_drift):
    made = drifted(tmp_path)
    parts = [torch.load(made.path(3, rank))[NORM].float() for rank in range(3)]
    export_foreign(made.folder, tmp_path / "out", ForeignSettings(on_drift=on_drift))
    found = load_file(tmp_path / "out" / "model.safetensors")[f"transformer.h.0.{NORM}"]
    expected = parts[0] if on_drift == "rank0" else sum(parts) / 3
    assert torch.equal(found, expected.bfloat16())
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"`h.0.{NORM}`: 0.25" in card
    assert ("mean" in card) is (on_drift == "mean-fp32")
    source = json.loads((tmp_path / "out" / "source.json").read_text())
    assert source["on_drift"] == on_drift
    assert math.isclose(source["drift"][f"h.0.{NORM}"], 0.25, abs_tol=0.01)


def test_a_universal_checkpoint_gives_the_fp32_weights(tmp_path):
    made = fabricate_universal(tmp_path)
    parity = export_foreign(made.folder, tmp_path / "out", PLAIN)
    assert (parity.dtype, parity.vocabulary_rows) == ("float32", ENTRIES)
    weights, family = load_file(tmp_path / "out" / "model.safetensors"), family_for_export(made.model)
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in weights.values())
    for name, master in made.masters.items():
        target = next(p for p in weights if p == family.targets.get(name, name) or p.endswith(name))
        assert torch.equal(weights[target], master[:ENTRIES] if "word_embeddings.weight" in name else master)


def test_a_universal_checkpoint_rounds_to_the_weights_of_the_training(tmp_path):
    universal, layers = fabricate_universal(tmp_path), fabricate_layers(tmp_path)
    export_foreign(universal.folder, tmp_path / "universal-out", ForeignSettings(dtype="bfloat16"))
    export_foreign(layers.folder, tmp_path / "layers-out", ForeignSettings(vocabulary="trim"))
    first, second = (load_file(tmp_path / f"{name}-out" / "model.safetensors") for name in ("universal", "layers"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], tensor) for name, tensor in second.items())


def test_a_wrong_merge_fails_the_proof_and_stays_beside_the_target(tmp_path, monkeypatch):
    made = fabricate_layers(tmp_path)

    def wrong(*arguments, **options):
        found = assemble(*arguments, **options)
        return found.copy_(found.flip(0)) if found.dim() > 1 else found

    monkeypatch.setattr("bloomery.checkpoint.foreign.foreign_checkpoint.assemble", wrong)
    with pytest.raises(CheckFailedError, match=r"the first module whose output differs .* word_embeddings"):
        export_foreign(made.folder, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()
    assert (tmp_path / ".out.failed" / "model.safetensors").exists()
    assert not (tmp_path / ".out.failed" / "parity.json").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ForeignSettings(dtype="float16"), "--dtype float16 would round the bfloat16 weights"),
        (ForeignSettings(tokenizer="other"), "expected: 290 entries"),
    ],
)
def test_settings_that_do_not_fit_the_checkpoint_are_errors(tmp_path, settings, message):
    made = fabricate_layers(tmp_path)
    if settings.tokenizer is not None:
        make_tokenizer(tmp_path / "other")
        text = json.loads((tmp_path / "other" / "tokenizer.json").read_text())
        text["added_tokens"].append(text["added_tokens"][0] | {"id": ENTRIES, "content": "<more>"})
        (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(text))
        settings = ForeignSettings(tokenizer=tmp_path / "other")
    with pytest.raises((InputError, CheckFailedError), match=message):
        export_foreign(made.folder, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_folder_and_prints_its_path(tmp_path):
    made, target = fabricate_layers(tmp_path, NETWORKS["gpt2"]), tmp_path / "out"
    found = CliRunner().invoke(app, ["export", "deepspeed", str(made.folder), "--output", str(target)])
    assert found.exit_code == 0, found.output
    assert found.stdout.strip().splitlines()[-1] == str(target)
    assert read_parity(target).passed
    assert json.loads((target / "config.json").read_text())["model_type"] == "gpt2"
