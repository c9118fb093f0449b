"""Test sources of the kind `hub`: a dataset is streamed from a Hub row by row, as in an ingest job."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hub_support import TOKEN, HubServer
from huggingface_hub import CommitOperationAdd, HfApi

DATASET = "tester/texts"
READ = """
import json, sys
from bloomery.base.errors import BloomeryError
from bloomery.config.sources import HubSource
from data_prep.corpus.rows import Row
from data_prep.corpus.sources.hub import read_hub
source = HubSource(name="s", kind="hub", language_field="lang", **json.loads(sys.argv[1]))
try:
    for item in read_hub(source, 10_000):
        print(item.key, item.language, item.text) if isinstance(item, Row) else print(item.reason)
except BloomeryError as error:
    print(type(error).__name__, error)
"""


def read(hub: HubServer, **source: Any) -> list[str]:
    """Read the rows of the dataset in a process whose environment names the Hub."""
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps({"dataset": DATASET} | source)],
        capture_output=True,
        text=True,
        env=hub.environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def lines(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text, "lang": "fr"}).encode() + b"\n" for text in texts)


@pytest.fixture
def dataset(hub: HubServer) -> HubServer:
    api = HfApi(hub.url, token=TOKEN)
    api.create_repo(DATASET, repo_type="dataset", private=True)
    files = {"train.jsonl": lines("un", "", "trois"), "test.jsonl": lines("quatre")}
    adds = [CommitOperationAdd(path, content) for path, content in files.items()]
    api.create_commit(DATASET, adds, commit_message="texts", repo_type="dataset")
    return hub


@pytest.mark.slow
def test_a_dataset_is_streamed_from_a_hub(dataset: HubServer) -> None:
    assert read(dataset) == ["train:1 fr un", "empty text", "train:3 fr trois"]
    assert read(dataset, split="test") == ["test:1 fr quatre"]
    assert read(dataset, max_documents=1) == ["train:1 fr un"]


@pytest.mark.slow
def test_a_pinned_revision_does_not_change(dataset: HubServer) -> None:
    api = HfApi(dataset.url, token=TOKEN)
    commit = api.dataset_info(DATASET).sha
    api.upload_file(path_or_fileobj=lines("autre"), path_in_repo="train.jsonl", repo_id=DATASET, repo_type="dataset")
    assert read(dataset, revision=commit) == ["train:1 fr un", "empty text", "train:3 fr trois"]
    assert read(dataset) == ["train:1 fr autre"]


@pytest.mark.slow
def test_a_missing_dataset_is_an_input_error_and_an_unreachable_hub_a_try_again_error(dataset: HubServer) -> None:
    [missing] = read(dataset, dataset="tester/nothing")
    assert missing.startswith("InputError sources[s].dataset 'tester/nothing'")
    # Offline mode raises the same error as a lost connection, without half a minute of the client's retries.
    dataset.environment["HF_HUB_OFFLINE"] = "1"
    [away] = read(dataset)
    assert away.startswith(f"TryAgainError sources[s].dataset '{DATASET}'")
