"""Test how weight files are found and opened: damaged and hostile files are refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from bloomery.base.errors import InputError
from export.from_transformers.find_weights import open_weights, weight_files


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder has no weights; expected: model\.safetensors, "):
        weight_files(tmp_path)


def test_safetensors_are_preferred_to_pickles(tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.safetensors"):
        (tmp_path / name).touch()
    assert weight_files(tmp_path) == [tmp_path / "model.safetensors"]


@pytest.mark.parametrize(
    "index",
    [
        [],
        {},
        {"weight_map": {}},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": "../x.safetensors"}},
        {"weight_map": {"a": "x.bin"}},
    ],
)
def test_an_index_that_names_no_files_of_the_folder_is_refused(tmp_path: Path, index: object) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=r"does not map the names of tensors to names of \.safetensors files"):
        weight_files(tmp_path)


def test_a_missing_file_of_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"b\.safetensors: no such file"):
        open_weights(tmp_path / "b.safetensors")


class _Touch:
    """Object whose unpickling creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path, form: str) -> None:
    path, marker = tmp_path / "pytorch_model.bin", tmp_path / "ran"
    if form == "torch":
        torch.save({"a": _Touch(marker)}, path)
    else:
        path.write_bytes(pickle.dumps({"a": _Touch(marker)}, protocol=2))
    with pytest.raises(InputError, match="it holds more than tensors, which is not safe to read"):
        open_weights(path)
    assert not marker.exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\3\4 damaged"])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        open_weights(tmp_path / name)


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save([torch.zeros(1)], tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="not a state dict of tensors"):
        open_weights(tmp_path / "pytorch_model.bin")


class _Declared:
    """Class that another package declares safe."""


def test_a_class_that_another_package_declared_safe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": _Declared()}, path)
    with torch.serialization.safe_globals([_Declared]), pytest.raises(InputError, match="it holds more than tensors"):
        open_weights(path)
