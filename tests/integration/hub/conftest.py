"""Fixtures of a Hub and of a run that is ready to be published."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fabricated_export import fabricate
from hub_support import TOKEN, HubServer, client_environment, running_hub, start_server

from bloomery.base.atomic import write_json
from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage, write_stage
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.logline import render
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.contracts.parity import Parity, write_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Segment, SegmentStatus, write_segment
from export.export_model import export_model


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with running_hub(tmp_path) as server:
        yield server


@dataclass
class HubAt(HubServer):
    """A Hub at a known port, which cannot be reached before it is started."""

    folder: Path = Path()
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process, _ = start_server(self.folder, int(self.url.rsplit(":", 1)[1]))

    def run(self, paths: RunPaths) -> Publishable:
        return Publishable(paths, self.environment)


@pytest.fixture
def hub_at(tmp_path: Path) -> Iterator[Callable[[int], HubAt]]:
    made = []

    def make(port: int) -> HubAt:
        home, url = tmp_path / "home", f"http://127.0.0.1:{port}"
        made.append(HubAt(url, home, client_environment(HF_ENDPOINT=url, HF_TOKEN=TOKEN, HF_HOME=str(home))))
        made[-1].folder = tmp_path / "hub"
        return made[-1]

    yield make
    for server in made:
        if server.process is not None:
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder like that of the export, with a model that transformers saved."""
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


def record(iteration: int) -> MetricsRecord:
    """Return the record of an iteration. Its figures differ from those of every other iteration."""
    return MetricsRecord(
        iteration=iteration,
        consumed_samples=4 * iteration,
        consumed_tokens=128 * iteration,
        global_batch_size=4,
        learning_rate=1e-3 / iteration,
        loss=10.0 / iteration**0.3,
        grad_norm=1.0 + 1.0 / iteration,
        seconds=0.1 + iteration % 7 / 70,
        tokens_per_second=1280.0 - iteration % 11,
        tflops_hardware=0.1,
        tflops_model=0.1,
        samples_per_second=40.0,
        total_iterations=100_000,
        segment=1,
        time=f"2026-01-01T{iteration // 3600 % 24:02d}:{iteration // 60 % 60:02d}:{iteration % 60:02d}Z",
    )


@dataclass
class Publishable:
    """A run with an exported model, and the commands that publish it."""

    paths: RunPaths
    environment: dict[str, str]

    @property
    def model(self) -> Path:
        return self.paths.export / "tiny-bloom"

    @property
    def output(self) -> Path:
        return self.paths.published / "publish.json"

    def prove(self, **changes: Any) -> None:
        """Write parity.json for the current files of the model."""
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
        files = list_files(self.model, omit={"parity.json"})
        write_parity(self.model, Parity(**(facts | changes), files=files))

    def start(self, *command: str, **variables: str | None) -> subprocess.Popen[str]:
        """Start a verb. A variable that is None is removed from the environment."""
        environment = self.environment | {key: value for key, value in variables.items() if value is not None}
        for key in (key for key, value in variables.items() if value is None):
            environment.pop(key, None)
        return subprocess.Popen(
            [sys.executable, "-m", "bloomery.cli", *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *command: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **variables)
        try:
            stdout, stderr = process.communicate(timeout=120)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def publish(self, **variables: str | None) -> subprocess.CompletedProcess[str]:
        command = ["publish", "run", "--config", str(self.paths.config / "publish.json")]
        result = self.paths.results / "publish" / "tiny-bloom.json"
        return self.call(*command, "--run", str(self.paths.run), "--result", str(result), **variables)

    def sync(self, *options: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        return self.call("sync", "--run", str(self.paths.run), *options, **variables)

    def sync_last(self, **variables: str | None) -> subprocess.CompletedProcess[str]:
        """Sync as the workflow does at the end."""
        return self.sync("--result", str(self.paths.results / "logs.json"), **variables)

    @property
    def logs_report(self) -> Path:
        return self.paths.published / "logs.json"

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.paths.monitoring / "sync.json").read_text())

    def local_logs(self) -> dict[str, bytes]:
        """Return the expected files of the logs repository, without its page."""
        tops = {"logs": self.paths.logs, "segments": self.paths.segments, "report": self.paths.report}
        files = {
            f"{top}/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for top, folder in tops.items()
            for path in folder.rglob("*")
            # The output of each rank is not published.
            if path.is_file() and not path.name.startswith(".") and path.parent.name != "ranks"
        }
        return files | {f"config/{path.name}": path.read_bytes() for path in self.paths.config.glob("*.json")}

    def append(self, first: int, last: int) -> None:
        """Append iterations to the logs as training does."""
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        with (
            (self.paths.logs / "metrics.jsonl").open("a") as metrics,
            (self.paths.logs / "main_log.txt").open("a") as log,
        ):
            for iteration in range(first, last + 1):
                entry = record(iteration)
                metrics.write(entry.model_dump_json(exclude_none=True) + "\n")
                log.write(render(entry) + "\n")

    def finish(self) -> None:
        """Write the files that mark the end of training."""
        segment = Segment(
            number=1,
            status=SegmentStatus.FINISHED,
            first_iteration=1,
            iteration=100,
            total_iterations=100,
            consumed_samples=400,
            consumed_tokens=12800,
            checkpoint="step00000100",
            identity="0" * 32,
        )
        write_segment(self.paths.segments / "1.json", segment)
        write_segment(self.paths.finished, segment)


@pytest.fixture
def run(tmp_path: Path, exported: Path, hub: HubServer) -> Publishable:
    paths = RunPaths(tmp_path / "runs" / "tiny")
    ready = Publishable(paths, hub.environment)
    shutil.copytree(exported, ready.model)
    ready.prove()
    tensorboard = paths.logs / "tensorboard" / "events.out.tfevents.1"
    tensorboard.parent.mkdir(parents=True)
    tensorboard.write_bytes(bytes(range(256)) * 400)
    (paths.logs / ".main_log.txt.123.tmp").write_text("half")
    ready.append(1, 3)
    write_json(paths.report / "corpus.json", {"languages": {}})
    write_json(paths.config / "ingest" / "sample" / "00000.json", {"files": ["/home/somebody/private.jsonl"]})
    stage = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig())
    write_json(paths.config / "parts.json", [])
    write_stage(paths.config / "publish.json", stage)
    return ready


@pytest.fixture
def trained(tmp_path: Path, hub: HubServer) -> Publishable:
    """Return a run with an exported final model, and with checkpoints of the iterations 40, 80 and 100."""
    made = fabricate(tmp_path)
    for iteration in (40, 80):
        made.add_earlier_checkpoint(iteration)
    stage = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig())
    write_stage(made.paths.config / "publish.json", stage)
    export_model(made.stage, made.paths, made.target)
    return Publishable(made.paths, hub.environment)


@pytest.fixture
def start(run: Publishable) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a bloomery command in the background.

    Commands that still run after the test are killed.
    """
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str, **variables: str | None) -> subprocess.Popen[str]:
        started.append(run.start(*command, **variables))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()
