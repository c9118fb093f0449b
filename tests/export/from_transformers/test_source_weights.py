"""Test the weights of a source: their names, forms and types, and the checks before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers_source import make_source

from bloomery.base.errors import InputError
from bloomery.spec.parameters import declare
from export.from_transformers.read_network import read_network
from export.from_transformers.source_weights import SourceWeights

State = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    make_source(folder / "gpt2", "gpt2", layers=2)
    make_source(folder / "gpt2-untied", "gpt2", layers=2, tied_embeddings=False)
    return folder


@pytest.fixture
def changed(made: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a source, changes its weights, and returns the new folder."""

    def change(edit: Callable[[State], None], name: str = "gpt2", save: str = "safetensors") -> Path:
        folder = tmp_path / "changed"
        shutil.copytree(made / name, folder)
        state = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        edit(state)
        if save == "safetensors":
            save_file(state, folder / "model.safetensors")
        else:
            torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=save == "zip")
        return folder

    return change


def opened(folder: Path, precision: str | None = None) -> SourceWeights:
    return SourceWeights(folder, read_network(folder), precision)


def everything(weights: SourceWeights) -> list[torch.Tensor]:
    network = weights.network
    return [weights.part(parameter, None) for parameter in declare(network.model, network.rows)]


def _unprefixed(state: State) -> None:
    for name in list(state):
        state[name.removeprefix("transformer.")] = state.pop(name)


def _with_buffers(state: State) -> None:
    for block in range(2):
        state[f"transformer.h.{block}.attn.bias"] = torch.ones(1, 1, 32, 32, dtype=torch.uint8)
        state[f"transformer.h.{block}.attn.masked_bias"] = torch.tensor(-1e4)


def _with_tied_head(state: State) -> None:
    state["lm_head.weight"] = state["transformer.wte.weight"].clone()


@pytest.mark.parametrize("save", ["safetensors", "zip", "old"])
@pytest.mark.parametrize("edit", [_unprefixed, _with_buffers, _with_tied_head])
def test_every_form_of_a_folder_gives_the_same_weights(made, changed, edit, save):
    expected, found = everything(opened(made / "gpt2")), everything(opened(changed(edit, save=save)))
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


def test_several_files_with_an_index_are_read(made, tmp_path):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(made / "gpt2")
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    expected, found = everything(opened(made / "gpt2")), everything(opened(tmp_path))
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


def test_a_part_of_a_parameter_equals_that_part_of_the_whole(made):
    weights = opened(made / "gpt2")
    for parameter in declare(weights.network.model, 303):
        whole, dimension = weights.part(parameter, None), parameter.placement.dimension
        assert whole.shape == parameter.shape
        if dimension is not None:
            size = parameter.shape[dimension] // 3
            for start in range(0, 3 * size, size):
                found = weights.part(parameter, range(start, start + size))
                assert torch.equal(found, whole.narrow(dimension, start, size)), parameter.name


def test_the_precision_is_that_of_the_weights_or_exact_for_mixed_types(changed):
    def mix(state: State) -> None:
        state["transformer.ln_f.weight"] = state["transformer.ln_f.weight"].float()

    folder = changed(mix)
    assert (opened(folder).precision, opened(folder).is_rounded) == ("fp32", False)
    assert opened(folder, "bf16").is_rounded


def _drop(state: State) -> None:
    del state["transformer.h.1.mlp.c_fc.bias"]


def _drop_head(state: State) -> None:
    del state["lm_head.weight"]


def _add(state: State) -> None:
    state["transformer.h.2.ln_1.bias"] = torch.zeros(96)


def _transpose(state: State) -> None:
    state["transformer.h.1.mlp.c_fc.weight"] = torch.zeros(96, 97)


def _integers(state: State) -> None:
    state["transformer.ln_f.bias"] = torch.zeros(96, dtype=torch.int32)


def _other_head(state: State) -> None:
    state["lm_head.weight"] = state["transformer.wte.weight"] + 1


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_drop, r"the weights lack transformer\.h\.1\.mlp\.c_fc\.bias; expected: exactly the 28 tensors"),
        (_add, r"the weights have unknown tensors: transformer\.h\.2\.ln_1\.bias"),
        (_transpose, r"c_fc\.weight has shape \[96, 97\]; expected: shape \[96, 96\]"),
        (_integers, r"ln_f\.bias has type I32; expected: weights of type float32"),
        (_other_head, "lm_head.weight and transformer.wte.weight differ, although config.json states that they are"),
    ],
)
def test_wrong_weights_are_refused(changed, edit, said):
    with pytest.raises(InputError, match=said):
        opened(changed(edit))


@pytest.mark.parametrize(("value", "precision"), [(float("nan"), None), (float("inf"), None), (1e30, "fp16")])
def test_values_that_are_not_finite_are_refused(changed, value, precision):
    weights = opened(changed(lambda state: state["transformer.ln_f.bias"].fill_(value)), precision)
    with pytest.raises(InputError, match=r"transformer\.ln_f\.bias has values that are not finite in"):
        everything(weights)


def test_an_untied_model_without_its_head_is_refused(changed):
    folder = changed(_drop_head, name="gpt2-untied")
    with pytest.raises(InputError, match=r"the weights lack lm_head\.weight.*and its own head"):
        opened(folder)
