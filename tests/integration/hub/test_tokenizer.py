"""Test the import of a tokenizer from a Hub: from one commit, and only its JSON files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hub_support import TOKEN, HubServer
from huggingface_hub import CommitOperationAdd, HfApi
from tokenizers import AddedToken, Tokenizer, models

REPOSITORY = "tester/words"


def tokenizer(*words: str) -> bytes:
    made = Tokenizer(models.WordLevel({"<end>": 0} | {word: n for n, word in enumerate(words, 1)}, unk_token="<end>"))
    made.add_special_tokens([AddedToken("<end>", special=True)])
    return made.to_str().encode()


def commit(hub: HubServer, **files: bytes) -> str:
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(REPOSITORY, private=True, exist_ok=True)
    adds = [CommitOperationAdd(name.replace("__", "."), content) for name, content in files.items()]
    return str(api.create_commit(REPOSITORY, adds, commit_message="files").oid)


def import_tokenizer(hub: HubServer, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", "tokenizer", "import", name, "--output", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=hub.environment)


@pytest.mark.slow
def test_a_tokenizer_of_a_hub_is_imported_from_the_recorded_commit(hub: HubServer, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    role = json.dumps({"eos_token": "<end>", "auto_map": {"AutoTokenizer": ["own.Own", None]}}).encode()
    code = f"open({str(marker)!r}, 'w')".encode()
    first = commit(hub, tokenizer__json=tokenizer("a"), tokenizer_config__json=role, own__py=code)
    second = commit(hub, tokenizer__json=tokenizer("a", "b"))
    for name, expected, entries in (
        (REPOSITORY, second, 3),
        (f"{REPOSITORY}@main", second, 3),
        (f"{REPOSITORY}@{first}", first, 2),
    ):
        done = import_tokenizer(hub, name, tmp_path / "out")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        origin = json.loads((tmp_path / "out/origin.json").read_text())
        assert (origin["commit"], origin["repository"], origin["endpoint"]) == (expected, REPOSITORY, hub.url)
        assert (origin["vocabulary"], origin["end_of_document"]["token"]) == (entries, "<end>")
        assert TOKEN not in json.dumps(origin) + done.stderr
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"origin.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
        assert "auto_map" not in (tmp_path / "out/tokenizer_config.json").read_text()
    assert not marker.exists()


@pytest.mark.slow
def test_a_repository_without_a_tokenizer_json_is_refused_with_advice(hub: HubServer, tmp_path: Path) -> None:
    commit(hub, tokenizer__model=b"\x0a\x05pieces", own__py=b"")
    done = import_tokenizer(hub, REPOSITORY, tmp_path / "out")
    assert done.returncode == 1
    assert "has SentencePiece's tokenizer.model but no tokenizer.json" in done.stderr
    assert "save_pretrained" in done.stderr
    done = import_tokenizer(hub, "tester/nowhere", tmp_path / "out")
    assert done.returncode != 0
    assert "tester/nowhere" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
