"""Fixtures that run the whole corpus chain over any sources, with the real `bloomery corpus` commands in this
process."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from browser import Browser, browser_program
from repository import ROOT
from typer.testing import CliRunner

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig
from bloomery.config.stages import write_stage
from bloomery.contracts.part_names import earlier_parts
from bloomery.orchestration.plan_parts import evaluation_files, plan_parts
from bloomery.orchestration.stage_sections import ingest_stage, stage_sections
from data_prep.corpus.cli import app as corpus_app
from data_prep.formats.shard import read_table
from data_prep.report.cli import app as report_app


@dataclass(frozen=True)
class CorpusRun:
    """The folder and configuration of a run, with methods that run the commands and read their output."""

    folder: Path
    config: RunConfig
    parts: list[str]

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    def path(self, kind: str, part: str) -> Path:
        return self.corpus / kind / f"{part}.parquet"

    def texts(self, part: str) -> Path:
        """Return the path of the shard whose texts are measured and cleaned."""
        return self.path(self.config.corpus.texts, part)

    def table(self, kind: str) -> pa.Table:
        """Return the tables of one kind, concatenated over all parts."""
        return pa.concat_tables([read_table(self.path(kind, part)) for part in self.parts])

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return self.table(kind).to_pylist()

    def duplicates(self) -> list[dict[str, Any]]:
        return [row for path in self.partitioned("resolved") for row in read_table(path).to_pylist()]

    def partitioned(self, name: str) -> list[Path]:
        """Return the paths of one table of the search for duplicates, one path per partition."""
        return [
            self.corpus / "duplicates" / f"{name}-{number}.parquet"
            for number in range(self.config.corpus.dedup.partitions)
        ]

    def section(self, name: str) -> Path:
        return self.folder / "config" / name

    def verb(self, name: str, *options: object) -> None:
        app = report_app if name == "report" else corpus_app
        arguments = [*("corpus" if name == "report" else name).split(), *map(str, options)]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert result.stdout == "", "stdout is for data, and these verbs print no data"

    def ingest(self) -> None:
        for part in self.parts:
            self.verb(
                "ingest", "--config", self.section(f"ingest/{part}.json"), "--output", self.path("raw", part),
                "--quarantine", self.corpus / "quarantine" / f"{part}.jsonl",
            )  # fmt: skip

    def judge(self) -> None:
        self.ingest()
        self.reread()

    def strip(self) -> None:
        """Remove the repeated lines from the ingested shards."""
        lines = self.config.corpus.lines
        for part in self.parts:
            self.verb(
                "lines", "--config", self.section("lines.json"), "--input", self.path("raw", part),
                "--output", self.path("lines", part),
            )  # fmt: skip
        for partition in range(lines.partitions):
            self.verb(
                "repeated-lines", "--config", self.section("repeated_lines.json"), "--corpus", self.corpus,
                "--parts", self.section("parts.json"), "--partition", partition,
                "--output", self.corpus / "repeated_lines" / f"{partition}.parquet",
            )  # fmt: skip
        for part in self.parts:
            self.verb(
                "strip", "--config", self.section("lines.json"), "--input", self.path("raw", part),
                "--corpus", self.corpus, "--output", self.path("stripped", part),
            )  # fmt: skip

    def reread(self) -> None:
        """Measure and judge the ingested shards."""
        if self.config.corpus.lines.enabled:
            self.strip()
        for part in self.parts:
            measures = self.path("measures", part)
            self.verb(
                "measure", "--config", self.section("measure.json"), "--input", self.texts(part),
                "--output", measures,
            )  # fmt: skip
            self.verb(
                "judge", "--config", self.section("judge.json"), "--input", measures,
                "--output", self.path("verdicts", part),
            )  # fmt: skip

    def all(self) -> None:
        self.judge()
        self.finish()

    def finish(self) -> None:
        """Run every step after judge."""
        everything = ["--corpus", self.corpus, "--parts", self.section("parts.json")]
        self.deduplicate()
        evaluation = evaluation_files(self.config.corpus.decontaminate)
        for part in self.parts:
            looked = ["--contaminated", self.path("contaminated", part)] if evaluation else []
            if evaluation:
                self.verb(
                    "decontaminate", "--config", self.section("decontaminate.json"), "--input", self.texts(part),
                    *(word for path in evaluation for word in ("--evaluation", path)), "--output", looked[-1],
                )  # fmt: skip
            self.verb(
                "clean", "--config", self.section("clean.json"), "--raw", self.texts(part),
                "--verdicts", self.path("verdicts", part),
                *(word for path in self.partitioned("resolved") for word in ("--duplicates", path)),
                *(word for path in self.partitioned("repeated") for word in ("--repeated", path)),
                "--output", self.path("clean", part), "--removed", self.path("removed", part),
                *looked,
            )  # fmt: skip
        self.verb(
            "mixture", "--config", self.section("mixture.json"), *everything, "--output", self.corpus / "mixture.json"
        )

    def deduplicate(self) -> None:
        """Run the search for duplicates."""
        settings = ["--config", self.section("dedup.json"), "--corpus", self.corpus]
        everything = [*settings, "--parts", self.section("parts.json")]
        folder = self.corpus / "duplicates"
        parts = [*self.parts, *earlier_parts(self.config.corpus.dedup.against)]
        for part in parts:
            self.verb("dedup keys", *settings, "--part", part, "--output", self.path("keys", part))
        for number, path in enumerate(self.partitioned("candidates")):
            self.verb(
                "dedup candidates", *everything, "--partition", number, "--output", path,
                "--repeated", self.partitioned("repeated")[number],
            )  # fmt: skip
        self.verb(
            "dedup connect", *everything, "--output", folder / "clusters.parquet",
            "--involved", folder / "involved.parquet",
        )  # fmt: skip
        for part in parts:
            self.verb("dedup members", *settings, "--part", part, "--output", self.path("members", part))
        for number, path in enumerate(self.partitioned("resolved")):
            self.verb(
                "dedup resolve", *everything, "--partition", number, "--output", path,
                "--survivors", self.partitioned("survivors")[number],
            )  # fmt: skip

    def report(self) -> tuple[dict[str, Any], str]:
        page = self.folder / "report" / "corpus.html"
        self.verb(
            "report", "--corpus", self.corpus, "--parts", self.section("parts.json"),
            "--config", self.section("judge.json"), "--output", page.parent,
        )  # fmt: skip
        return json.loads(page.with_suffix(".json").read_text()), page.read_text()


CorpusRunner = Callable[..., CorpusRun]


@pytest.fixture(scope="session")
def corpus_run(tmp_path_factory: pytest.TempPathFactory) -> CorpusRunner:
    """Return `plan(sources, **corpus_settings)`, which plans a run in a new folder and runs no command."""

    def plan(sources: list[dict[str, Any]], reverse: bool = False, **corpus: Any) -> CorpusRun:
        folder = tmp_path_factory.mktemp("run")
        config = validate_config(
            {
                "name": "test",
                "sources": sources,
                "corpus": corpus,
                "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
                "training": {
                    "train_samples": 1,
                    "batch": {"global_batch_size": 1},
                    "optimizer": {"learning_rate": 0.1},
                },
            }
        )
        parts = []
        for source in config.sources:
            for number, portion in enumerate(plan_parts(source, config.corpus.ingest)):
                parts.append(f"{source.name}/{number:05d}")
                write_stage(
                    folder / "config" / "ingest" / f"{parts[-1]}.json", ingest_stage(config, source, number, *portion)
                )
        for name, section in stage_sections(config).items():
            write_stage(folder / "config" / f"{name}.json", section)
        parts = parts[::-1] if reverse else parts
        (folder / "config" / "parts.json").write_text(json.dumps(parts))
        return CorpusRun(folder, config, parts)

    return plan


@pytest.fixture(scope="session")
def sample_run(corpus_run: CorpusRunner) -> CorpusRun:
    """Run the whole chain over the embedded sample, in several parts and hash partitions."""
    source = {
        "name": "sample",
        "kind": "jsonl",
        "paths": [f"{ROOT}/config/sample/*.jsonl"],
        "language_field": "language",
        "id_field": "id",
        "max_bad_share": 0.05,
    }
    run = corpus_run([source], ingest={"shard_bytes": "64KiB", "max_document_bytes": "64KiB"}, dedup={"partitions": 3})
    run.all()
    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of pages."""
    if browser_program() is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium fonts-noto-core fonts-wqy-microhei)")
    with Browser.start() as running:
        yield running
