"""Test which files of an exported model are published."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import BloomeryError, InputError
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.parity import PARITY_NAME
from export.model_bundle import model_bundle

NUMBERS = ("iteration", "consumed_tokens", "parameters", "vocabulary_rows", "samples", "tokens")
TEXTS = ("dtype", "prompt", "text")
MEASURES = ("tolerance", "max_difference", "max_absolute_difference", "max_logit", "argmax_agreement")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "export" / "m"
    found.mkdir(parents=True)
    write_json(found / "config.json", {"model_type": "bloom"})
    (found / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "secret").write_text("a secret")
    list_again(found)
    return found


def list_again(folder: Path) -> None:
    files = {name: entry.model_dump() for name, entry in list_files(folder, omit={PARITY_NAME}).items()}
    values = {"model": "m", "checkpoint": "step00000100", "versions": {}, "files": files}
    values |= dict.fromkeys(NUMBERS, 1) | dict.fromkeys(TEXTS, "") | dict.fromkeys(MEASURES, 0.0)
    write_json(folder / PARITY_NAME, values)


def test_exactly_the_listed_files_are_published(folder: Path) -> None:
    (folder / "notes.txt").touch()
    bundle, _ = model_bundle(folder, "m")
    assert sorted(bundle.files) == ["config.json", "model.safetensors", PARITY_NAME]


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "../../../../../../../../etc/hostname"])
def test_a_file_outside_of_the_model_is_not_published(folder: Path, name: str) -> None:
    value = read_json(folder / PARITY_NAME)
    value["files"][name] = {"bytes": 8, "sha256": "0" * 64}
    write_json(folder / PARITY_NAME, value)
    with pytest.raises(InputError, match="a relative path below this folder"):
        model_bundle(folder, "m")


def test_a_link_out_of_the_model_is_not_published(folder: Path) -> None:
    (folder / "LICENSE").symlink_to(folder.parents[1] / "secret")
    list_again(folder)
    with pytest.raises(InputError, match="LICENSE: this path is a symbolic link to a place outside"):
        model_bundle(folder, "m")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_a_configuration_that_names_python_code_is_not_published(folder: Path, name: str) -> None:
    write_json(folder / name, {"auto_map": {"AutoModel": "evil.Model"}})
    list_again(folder)
    with pytest.raises(InputError, match="makes transformers run Python code"):
        model_bundle(folder, "m")


def test_a_changed_file_is_not_published(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(BloomeryError, match="the file has changed since the exported model was verified"):
        model_bundle(folder, "m")
