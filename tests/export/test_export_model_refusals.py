"""Test that defective checkpoints are not exported, and that the errors name file, tensor and ranks."""

from __future__ import annotations

import os
import resource
import time

import pytest
import torch
from safetensors.torch import load_file

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import CheckFailedError, InputError, ResourceError
from bloomery.base.self_digest import without_own_digest
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import layer_file, write_manifest
from bloomery.contracts.segment import SegmentStatus, read_segment, write_segment
from bloomery.spec.gpt import head_layer
from export.export_model import export_model

pytestmark = pytest.mark.slow

FIRST_BLOCK = 2


def refused(run, kind=CheckFailedError, **arguments):
    """Export, check that an error is raised and no folder remains except the failed one, and return the message."""
    with pytest.raises(kind) as caught:
        export_model(run.stage, run.paths, run.target, **arguments)
    left = {path.name for path in run.paths.export.iterdir()} if run.paths.export.exists() else set()
    assert left <= {f".{run.stage.model_name}.failed"}
    return str(caught.value)


@pytest.mark.parametrize("name", ["../../evil", "../checkpoints/step00000100", "/etc", "..", "step00000100/"])
def test_a_checkpoint_outside_of_the_run_is_refused(fabricate, name):
    run = fabricate()
    (run.paths.run / "evil").mkdir()
    message = refused(run, InputError, checkpoint_name=name)
    assert f"--checkpoint: {name!r} is not the name of a checkpoint; expected: the name of one folder" in message
    value = without_own_digest(read_json(run.paths.finished))
    write_json(run.paths.finished, value | {"checkpoint": name})
    assert "finished.json: not the record of a training segment: checkpoint: " in refused(run, InputError)


def test_a_link_to_a_checkpoint_outside_of_the_run_is_refused(fabricate):
    run = fabricate()
    run.checkpoint.rename(run.paths.run / "moved")
    run.checkpoint.symlink_to(run.paths.run / "moved")
    assert "symbolic link to a place outside" in refused(run, InputError)


def change_reference(run, **tensors):
    run.edit_reference(lambda reference: reference.update(tensors))


@pytest.mark.parametrize("token", [10**9, -1, 320])
def test_a_reference_token_beyond_the_embedding_is_refused(fabricate, token):
    run = fabricate()
    tokens = load_file(run.checkpoint / "reference.safetensors")["tokens"]
    tokens[1, 5] = token
    change_reference(run, tokens=tokens)
    message = refused(run, InputError)
    assert "the tokens range from" in message
    assert str(token) in message


def test_a_reference_of_other_types_or_shapes_is_refused(fabricate):
    run = fabricate()
    reference = load_file(run.checkpoint / "reference.safetensors")
    change_reference(run, tokens=reference["tokens"].to(torch.float32))
    assert "has type torch.float32" in refused(run, InputError)
    change_reference(run, tokens=reference["tokens"], logits=reference["logits"][:, :10].contiguous())
    assert "do not match" in refused(run, InputError)


@pytest.mark.parametrize("header", [b"\xff" * 8, b"\x05\0\0\0\0\0\0\0null!", b"", b"\x02\0\0\0\0\0\0\0{}"])
def test_a_reference_with_a_bad_safetensors_header_is_refused(fabricate, header):
    run = fabricate()
    (run.checkpoint / "reference.safetensors").write_bytes(header)
    run.rewrite_manifest()
    assert "reference.safetensors: the file " in refused(run, InputError)


@pytest.mark.parametrize(
    "change",
    [{"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}, {"trust_remote_code": True}],
)
def test_a_tokenizer_that_names_python_code_is_refused_and_the_code_does_not_run(fabricate, change):
    run = fabricate()
    path = run.paths.tokenizer / "tokenizer_config.json"
    write_json(path, read_json(path) | change)
    (run.paths.tokenizer / "evil.py").write_text("raise SystemExit('executed')")
    assert f"{path}: the key {next(iter(change))!r} makes transformers run Python code" in refused(run, InputError)


def test_a_tokenizer_that_transformers_cannot_load_is_refused(fabricate):
    run = fabricate()
    path = run.paths.tokenizer / "tokenizer_config.json"
    write_json(path, read_json(path) | {"added_tokens_decoder": {"x": 1}})
    assert "transformers cannot load the exported model or its tokenizer" in refused(run)


@pytest.mark.parametrize("ranks", [10**9, 10**5])
def test_an_impossible_number_of_tensor_ranks_is_refused_at_once(fabricate, ranks):
    run = fabricate()
    value = read_json(run.checkpoint / "manifest.json")
    # Remove the manifest's own digest, as in earlier versions. Otherwise the digest would reveal the change first.
    write_json(run.checkpoint / "manifest.json", without_own_digest(value) | {"tensor_parallel": ranks})
    before = time.process_time()
    assert "tensor_parallel" in refused(run, (InputError, CheckFailedError))
    assert time.process_time() - before < 5


@pytest.mark.parametrize("name", ["input_layernorm.weight", "self_attention.dense.bias", "mlp.dense_4h_to_h.bias"])
def test_a_replica_that_drifted_by_one_bit_is_refused_with_tensor_and_rank(fabricate, name):
    run = fabricate(tensor=4)

    def drift(state):
        bits = state[name].view(torch.int16)
        bits[5] ^= 1

    run.edit_layer(FIRST_BLOCK, 2, drift)
    run.rewrite_manifest()
    message = refused(run)
    assert f"h.0.{name}" in message
    assert "rank(s) 2 " in message
    assert "by up to" in message


def test_a_tied_copy_that_drifted_is_refused(fabricate):
    run = fabricate(tied_copy=True)
    run.edit_layer(head_layer(run.stage.model), 1, lambda state: state["word_embeddings.weight"].mul_(2))
    run.rewrite_manifest()
    assert "tied to pipeline layer" in refused(run)
    # A rank that loads only one half of the rows compares only this half.
    checkpoint = Checkpoint(run.checkpoint, run.stage.model)
    embedding = next(each for each in checkpoint.parameters if each.tied_layers)
    rows = embedding.shape[0] // 2
    assert checkpoint.weight(embedding, torch.bfloat16, range(rows)).shape[0] == rows
    with pytest.raises(CheckFailedError, match="tied to pipeline layer"):
        checkpoint.weight(embedding, torch.bfloat16, range(rows, 2 * rows))


def test_an_edited_file_is_refused_before_it_is_unpickled(fabricate):
    run = fabricate()
    path = run.checkpoint / layer_file(FIRST_BLOCK, 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    message = refused(run)
    assert str(path) in message
    assert "content differs" in message


def test_a_truncated_file_is_refused(fabricate):
    run = fabricate()
    path = run.checkpoint / layer_file(FIRST_BLOCK, 0)
    path.write_bytes(path.read_bytes()[:-100])
    message = refused(run)
    assert str(path) in message
    assert "bytes" in message


def test_swapped_files_are_refused(fabricate):
    run = fabricate()
    first, second = (run.checkpoint / layer_file(layer, 0) for layer in (FIRST_BLOCK, FIRST_BLOCK + 1))
    spare = first.with_suffix(".spare")
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    assert "content differs" in refused(run)


def test_blocks_swapped_before_the_manifest_was_written_fail_parity(fabricate):
    run = fabricate()
    first, second = (run.checkpoint / layer_file(layer, 0) for layer in (FIRST_BLOCK, FIRST_BLOCK + 1))
    content = {path: torch.load(path, weights_only=True) for path in (first, second)}
    for path, other in ((first, second), (second, first)):
        mixed = {
            key: (content[other] if key == "mlp.dense_h_to_4h.weight" else content[path])[key] for key in content[path]
        }
        torch.save(mixed, path)
    run.rewrite_manifest()
    assert "logits of the exported model differ" in refused(run)


def test_a_missing_file_of_a_rank_is_refused_with_its_name(fabricate):
    run = fabricate()
    (run.checkpoint / layer_file(FIRST_BLOCK, 1)).unlink()
    assert "file is missing" in refused(run)
    run.rewrite_manifest()
    assert layer_file(FIRST_BLOCK, 1) in refused(run)


def test_a_file_of_an_unknown_layer_is_refused(fabricate):
    run = fabricate()
    (run.checkpoint / layer_file(99, 0)).write_bytes(b"")
    run.rewrite_manifest()
    assert layer_file(99, 0) in refused(run)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda state: state.pop("mlp.dense_h_to_4h.bias"), "lacks the key mlp.dense_h_to_4h.bias"),
        (lambda state: state.update(adapter=torch.zeros(1)), "unexpected key adapter"),
        (lambda state: state.update({"input_layernorm.bias": torch.zeros(3)}), "input_layernorm.bias has shape (3,)"),
        (lambda state: state.update({"input_layernorm.bias": torch.zeros(32).half()}), "type torch.float16"),
    ],
)
def test_wrong_keys_shapes_and_types_are_refused_with_the_tensor(fabricate, change, expected):
    run = fabricate()
    path = run.edit_layer(FIRST_BLOCK, 1, change)
    run.rewrite_manifest()
    message = refused(run)
    assert str(path) in message
    assert expected in message


def test_a_pickle_that_would_run_code_is_refused(fabricate):
    run = fabricate()

    class Payload:
        def __reduce__(self):
            return os.system, ("touch owned",)

    path = run.checkpoint / layer_file(FIRST_BLOCK, 0)
    torch.save({"input_layernorm.weight": Payload()}, path)
    run.rewrite_manifest()
    assert str(path) in refused(run, InputError)


@pytest.mark.parametrize("change", ["wrong", "nan", "other"])
def test_wrong_reference_logits_fail_and_keep_the_folder_for_inspection(fabricate, change):
    run = fabricate()

    def edit(reference):
        if change == "wrong":
            reference["logits"][1, 3, 7] += 0.5
        elif change == "nan":
            reference["logits"][1, 3, 7] = float("nan")
        else:
            reference["logits"] = reference["logits"].flip(0).contiguous()

    run.edit_reference(edit)
    refused(run)
    failed = run.paths.export / f".{run.stage.model_name}.failed"
    assert (failed / "model.safetensors").is_file()
    assert not (failed / "parity.json").exists()


def test_a_failed_export_keeps_the_last_good_one(fabricate):
    run = fabricate()
    export_model(run.stage, run.paths, run.target)
    before = read_json(run.target / "parity.json")
    run.edit_reference(lambda reference: reference["logits"].mul_(1.01))
    with pytest.raises(CheckFailedError, match="logits of the exported model differ"):
        export_model(run.stage, run.paths, run.target)
    assert read_json(run.target / "parity.json") == before


def test_a_failure_by_rounding_float32_weights_names_export_dtype(fabricate):
    run = fabricate(precision="fp32")
    run.stage = run.with_export(dtype="bfloat16")
    assert "export.dtype rounds the float32 weights of the training to bfloat16" in refused(run)


def test_an_unfinished_training_is_refused_unless_a_checkpoint_is_named(fabricate):
    run = fabricate()
    segment = read_segment(run.paths.finished)
    write_segment(run.paths.finished, segment.model_copy(update={"status": SegmentStatus.TIME_LIMIT}))
    assert "has not finished" in refused(run)
    run.paths.finished.unlink()
    assert "--checkpoint" in refused(run)
    assert "no such checkpoint" in refused(run, InputError, checkpoint_name="step00000007")
    assert export_model(run.stage, run.paths, run.target, checkpoint_name=run.checkpoint.name).passed


def test_a_checkpoint_of_another_network_is_refused(fabricate):
    run = fabricate()
    other = run.stage.model.model_copy(update={"layer_norm_epsilon": 1e-6})
    with pytest.raises(InputError, match=r"model\.layer_norm_epsilon is 1e-05 in the checkpoint and 1e-06 in"):
        Checkpoint(run.checkpoint, other)


def test_a_missing_key_of_an_old_checkpoint_takes_its_default(fabricate):
    run = fabricate()
    old = {key: value for key, value in run.manifest.config["model"].items() if key not in ("rotary_base", "positions")}
    write_manifest(run.checkpoint, run.manifest.model_copy(update={"config": run.manifest.config | {"model": old}}))
    assert Checkpoint(run.checkpoint, run.stage.model).trained_with("precision")
    with pytest.raises(InputError, match=r"model\.positions is 'alibi' in the checkpoint and 'rotary' in"):
        Checkpoint(run.checkpoint, run.stage.model.model_copy(update={"positions": "rotary"}))


def test_a_tokenizer_that_differs_from_the_training_is_refused(fabricate):
    run = fabricate()
    path = run.paths.tokenizer / "tokenizer.json"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_tokens(["extra"])
    tokenizer.save(str(path))
    assert f"expected: {run.manifest.vocabulary_size}" in refused(run)


def test_a_full_disk_raises_a_clear_error_and_leaves_no_folder(fabricate):
    run = fabricate()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))  # writing beyond this size fails, as on a full disk
    try:
        message = refused(run, ResourceError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "larger than this process may write" in message
    assert "model.safetensors" in message
