"""Test the import of a model from a Hub: one commit, no code and no pickles, and again without the Hub."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_support import TOKEN, HubServer
from huggingface_hub import HfApi
from repository import ROOT
from safetensors.torch import load_file, save_file
from transformers_source import make_source

from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.initial_checkpoint import imported_checkpoint

REPOSITORY = "tester/tiny"


def import_model(hub: HubServer, name: str, output: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "import", "hf", name, "--output", str(output)]
    return subprocess.run(command, capture_output=True, text=True, env=hub.environment | variables)


@pytest.mark.slow
def test_a_model_of_a_hub_is_imported_from_the_recorded_commit(hub: HubServer, tmp_path: Path) -> None:
    make_source(tmp_path / "source", layers=1)
    (tmp_path / "source/own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "source/pytorch_model.bin").write_bytes(b"not to be downloaded")
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY, private=True)
    commit = api.upload_folder(repo_id=REPOSITORY, folder_path=tmp_path / "source").oid
    api.upload_file(path_in_repo="config.json", path_or_fileobj=b"{}", repo_id=REPOSITORY)

    done = import_model(hub, f"{REPOSITORY}@{commit}", tmp_path / "in")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'in'}\n"), done.stderr
    record = json.loads((tmp_path / "in/import.json").read_text())
    assert (record["repository"], record["commit"], record["endpoint"]) == (REPOSITORY, commit, hub.url)
    assert TOKEN not in json.dumps(record) + done.stderr
    cached = {path.name for path in Path(hub.environment["HF_HOME"]).glob("hub/models--*/snapshots/*/*")}
    assert cached == {
        *("config.json", "model.safetensors"),
        *("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
    }
    assert not (tmp_path / "ran").exists()
    reader = Checkpoint(imported_checkpoint(tmp_path / "in"))
    words = next(each for each in reader.parameters if each.name == "word_embeddings.weight")
    saved = load_file(tmp_path / "source/model.safetensors")["transformer.word_embeddings.weight"]
    assert reader.weight(words, saved.dtype).equal(saved)

    # The newest commit has another config.json. Without the Hub, the cache has only the first one.
    newest = import_model(hub, REPOSITORY, tmp_path / "newest")
    assert newest.returncode == 1
    assert "model_type is None" in newest.stderr
    offline = import_model(hub, f"{REPOSITORY}@{commit}", tmp_path / "offline", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert json.loads((tmp_path / "offline/import.json").read_text())["files"] == record["files"]


def split_weights(folder: Path, stem: str, suffix: str) -> list[str]:
    """Replace model.safetensors by two files, with an underscore in their names as in bigscience/bloom. Return them."""
    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = [f"{stem}_{number:05}-of-00002{suffix}" for number in (1, 2)]
    places = {tensor: names[number % 2] for number, tensor in enumerate(sorted(whole))}
    for name in names:
        part = {tensor: whole[tensor] for tensor, place in places.items() if place == name}
        if suffix == ".bin":
            torch.save(part, folder / name)
        else:
            save_file(part, folder / name)
    index: dict[str, Any] = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / f"{stem}{suffix}.index.json").write_text(json.dumps(index))
    return names


OFFLINE = """
import sys
from bloomery.base.errors import BloomeryError
from export.from_transformers.fetch_source import fetch_source
try:
    print(*sorted(path.name for path in fetch_source(sys.argv[1]).folder.iterdir()))
except BloomeryError as error:
    print(type(error).__name__, error)
"""


def fetch_offline(hub: HubServer, name: str) -> str:
    """Return the files of the repository's cached snapshot, or the error of `fetch_source`."""
    command = [sys.executable, "-c", OFFLINE, name]
    environment = hub.environment | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(("stem", "suffix"), [("model", ".safetensors"), ("pytorch_model", ".bin")])
def test_the_files_that_the_index_names_are_downloaded(hub: HubServer, tmp_path: Path, stem: str, suffix: str) -> None:
    source = tmp_path / "source"
    make_source(source, layers=1)
    saved = load_file(source / "model.safetensors")["transformer.word_embeddings.weight"]
    names = split_weights(source, stem, suffix)
    (source / "model-00001-of-00001.safetensors").write_bytes(b"not named by the index")
    if suffix != ".bin":
        (source / "pytorch_model.bin.index.json").write_bytes(b"not to be downloaded")
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY)
    commit = api.upload_folder(repo_id=REPOSITORY, folder_path=source).oid

    done = import_model(hub, REPOSITORY, tmp_path / "in")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "in/import.json").read_text())["files"].keys() == {"config.json", *names}
    reader = Checkpoint(imported_checkpoint(tmp_path / "in"))
    words = next(each for each in reader.parameters if each.name == "word_embeddings.weight")
    assert reader.weight(words, saved.dtype).equal(saved)
    small = ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
    assert fetch_offline(hub, f"{REPOSITORY}@{commit}").split() == sorted(
        [*small, *names, f"{stem}{suffix}.index.json"]
    )

    # Without one of the files, as after an interrupted download, the cache is refused.
    (lost,) = Path(hub.environment["HF_HOME"]).glob(f"hub/models--*/snapshots/*/{names[1]}")
    lost.unlink()
    assert "TryAgainError" in fetch_offline(hub, f"{REPOSITORY}@{commit}")


@pytest.mark.slow
def test_an_index_that_names_a_file_that_the_repository_lacks_is_refused(hub: HubServer, tmp_path: Path) -> None:
    make_source(tmp_path / "source", layers=1)
    names = split_weights(tmp_path / "source", "model", ".safetensors")
    (tmp_path / "source" / names[1]).unlink()
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY)
    api.upload_folder(repo_id=REPOSITORY, folder_path=tmp_path / "source")
    done = import_model(hub, REPOSITORY, tmp_path / "in")
    assert done.returncode == 1, done.stderr
    assert f"names 1 files that the repository does not have, such as {names[1]}" in done.stderr


@pytest.mark.slow
def test_a_repository_that_cannot_be_imported_is_named(hub: HubServer, tmp_path: Path) -> None:
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY)
    api.upload_file(path_in_repo="config.json", path_or_fileobj=b"{}", repo_id=REPOSITORY)
    for name, said, code, variables in (
        (REPOSITORY, "has no weights", 1, {}),
        (REPOSITORY, "HF_HUB_OFFLINE is set, and the cache", 75, {"HF_HUB_OFFLINE": "1"}),
    ):
        done = import_model(hub, name, tmp_path / "in", **variables)
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "in").exists()
