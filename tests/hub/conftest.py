"""A Hub on a free loopback port, in a process of its own, and a run that is ready to be published.

The client reads HF_ENDPOINT, HF_HOME and the rest when it is imported, so what uses it runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.atomic import write_json
from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage, write_stage
from bloomery.contracts.checkpoint import list_files
from bloomery.contracts.parity import Parity, write_parity
from bloomery.contracts.paths import RunPaths

TOKEN = "hf_" + "secretfortests"
USER = "tester"


@dataclass
class HubServer:
    """The running server, seen by plain HTTP."""

    url: str
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def call(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def read(self, path: str, body: Any = None) -> Any:
        return json.loads(self.call(path, body))

    def faults(self, *faults: dict[str, Any]) -> None:
        self.read("/_test/faults", list(faults))

    def paths(self, repository: str, revision: str = "main") -> list[str]:
        tree = self.read(f"/api/models/{repository}/tree/{revision}?recursive=true")
        return sorted(entry["path"] for entry in tree if entry["type"] == "file")

    def file(self, repository: str, path: str, revision: str = "main") -> bytes:
        return self.call(f"/{repository}/resolve/{revision}/{path}")

    def commits(self, repository: str) -> list[str]:
        return [commit["id"] for commit in self.read(f"/api/models/{repository}/commits/main")]

    def tags(self, repository: str) -> dict[str, str]:
        refs = self.read(f"/api/models/{repository}/refs")
        return {tag["name"]: tag["targetCommit"] for tag in refs["tags"]}


def client_environment(**changes: str) -> dict[str, str]:
    """This process's environment without anything that speaks of a Hub, and with `changes`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "HUB_"))}
    return kept | {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"} | changes


def start_server(folder: Path, **settings: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hub_server", "--data", str(folder), "--token", f"{TOKEN}:{USER}"],
        stdout=subprocess.PIPE,
        text=True,
        env=client_environment(PYTHONPATH=str(Path(__file__).parent), **settings),
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    process, url = start_server(tmp_path / "hub")
    home = tmp_path / "home"
    variables = client_environment(HF_ENDPOINT=url, HF_TOKEN=TOKEN, HF_HOME=str(home))
    try:
        yield HubServer(url, home, variables)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the export makes it, saved by transformers itself."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BloomConfig, BloomForCausalLM

    folder = tmp_path_factory.mktemp("exported")
    torch.manual_seed(0)
    BloomForCausalLM(BloomConfig(vocab_size=64, hidden_size=64, n_layer=2, n_head=4)).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "river": 1, "sea": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"})
    (folder / "README.md").write_text("---\nlanguage:\n- en\nlibrary_name: transformers\n---\n\n# tiny\n")
    return folder


@dataclass
class Publishable:
    """A run with an exported model, and the command that publishes it."""

    paths: RunPaths
    environment: dict[str, str]

    @property
    def model(self) -> Path:
        return self.paths.export / "tiny-bloom"

    @property
    def output(self) -> Path:
        return self.paths.published / "publish.json"

    def prove(self, **changes: Any) -> None:
        """Write parity.json for the files as they are."""
        facts = {
            "model": "tiny-bloom",
            "checkpoint": "step00000100",
            "iteration": 100,
            "consumed_tokens": 12800,
            "parameters": 1,
            "dtype": "float32",
            "vocabulary_rows": 64,
            "samples": 1,
            "tokens": 8,
            "tolerance": 1e-4,
            "max_difference": 1e-7,
            "max_absolute_difference": 1e-7,
            "max_logit": 1.0,
            "argmax_agreement": 1.0,
            "prompt": "river",
            "text": " sea",
            "versions": {},
        }
        files = {name: entry for name, entry in list_files(self.model).items() if name != "parity.json"}
        write_parity(self.model, Parity(**(facts | changes), files=files))

    def publish(self, **variables: str | None) -> subprocess.CompletedProcess[str]:
        environment = self.environment | {key: value for key, value in variables.items() if value is not None}
        for key in (key for key, value in variables.items() if value is None):
            environment.pop(key, None)
        command = ["publish", "run", "--config", str(self.paths.config / "publish.json")]
        command += ["--run", str(self.paths.run), "--output", str(self.output)]
        code = "import sys; from bloomery.cli import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", code, *command], env=environment, capture_output=True, text=True, timeout=120
        )


@pytest.fixture
def run(tmp_path: Path, exported: Path, hub: HubServer) -> Publishable:
    paths = RunPaths(tmp_path / "runs" / "tiny")
    ready = Publishable(paths, hub.environment)
    shutil.copytree(exported, ready.model)
    ready.prove()
    tensorboard = paths.logs / "tensorboard" / "events.out.tfevents.1"
    tensorboard.parent.mkdir(parents=True)
    tensorboard.write_bytes(bytes(range(256)) * 400)
    (paths.logs / "metrics.jsonl").write_text('{"iteration": 1}\n')
    (paths.logs / "main_log.txt").write_text(" iteration 1/100 |\n")
    (paths.logs / ".main_log.txt.123.tmp").write_text("half")
    write_json(paths.segments / "1.json", {"number": 1})
    write_json(paths.report / "corpus.json", {"languages": {}})
    write_json(paths.config / "ingest" / "sample" / "00000.json", {"files": ["/home/somebody/private.jsonl"]})
    stage = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig())
    write_stage(paths.config / "publish.json", stage)
    return ready
