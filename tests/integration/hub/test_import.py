"""Test the import of a model from a Hub: one commit, no code and no pickles, and again without the Hub."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hub_support import TOKEN, HubServer
from huggingface_hub import HfApi
from safetensors.torch import load_file
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


@pytest.mark.slow
def test_a_repository_that_cannot_be_imported_is_named(hub: HubServer, tmp_path: Path) -> None:
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY)
    api.upload_file(path_in_repo="config.json", path_or_fileobj=b"{}", repo_id=REPOSITORY)
    for name, said, code, variables in (
        (REPOSITORY, "has no weights", 1, {}),
        ("tester/none", "cannot find the newest commit of tester/none", 1, {}),
        (REPOSITORY, "HF_HUB_OFFLINE is set, and the cache", 75, {"HF_HUB_OFFLINE": "1"}),
    ):
        done = import_model(hub, name, tmp_path / "in", **variables)
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "in").exists()
