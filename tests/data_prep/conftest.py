"""Runs the whole corpus chain over any sources, by the real verbs in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from bloomery.config import RunConfig, validate_config
from bloomery.config.stages import ingest_stage, stage_sections, write_stage
from bloomery.contracts.shard import read_table
from data_prep.corpus.cli import app as corpus_app
from data_prep.corpus.parts import evaluation_files, plan_parts
from data_prep.report.cli import app as report_app

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class CorpusRun:
    """A run's folder and what the verbs wrote there."""

    folder: Path
    config: RunConfig
    parts: list[str]

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    def path(self, kind: str, part: str) -> Path:
        return self.corpus / kind / f"{part}.parquet"

    def table(self, kind: str) -> pa.Table:
        """One kind of table of all parts."""
        return pa.concat_tables([read_table(self.path(kind, part)) for part in self.parts])

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return self.table(kind).to_pylist()

    def duplicates(self) -> list[dict[str, Any]]:
        return read_table(self.corpus / "duplicates" / "duplicates.parquet").to_pylist()

    def section(self, name: str) -> Path:
        return self.folder / "config" / name

    def verb(self, name: str, *options: object) -> None:
        app = report_app if name == "report" else corpus_app
        arguments = ["corpus" if name == "report" else name, *map(str, options)]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert result.stdout == "", "stdout is data, and these verbs print none"

    def ingest(self) -> None:
        for part in self.parts:
            self.verb(
                "ingest", "--config", self.section(f"ingest/{part}.json"), "--output", self.path("raw", part),
                "--quarantine", self.corpus / "quarantine" / f"{part}.jsonl",
            )  # fmt: skip

    def judge(self) -> None:
        self.ingest()
        self.reread()

    def reread(self) -> None:
        """Measure and judge the shards that are there."""
        for part in self.parts:
            measures = self.path("measures", part)
            self.verb(
                "measure", "--config", self.section("measure.json"), "--input", self.path("raw", part),
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
        """Everything after judge."""
        everything = ["--corpus", self.corpus, "--parts", self.section("parts.json")]
        folder = self.corpus / "duplicates"
        for partition in range(self.config.corpus.dedup.partitions):
            self.verb(
                "candidates", "--config", self.section("dedup.json"), *everything, "--partition", partition,
                "--output", folder / f"candidates-{partition}.parquet",
            )  # fmt: skip
        self.verb(
            "cluster", "--config", self.section("dedup.json"), *everything, "--output", folder / "duplicates.parquet"
        )
        evaluation = evaluation_files(self.config.corpus.decontaminate)
        for part in self.parts:
            looked = ["--contaminated", self.path("contaminated", part)] if evaluation else []
            if evaluation:
                self.verb(
                    "decontaminate", "--config", self.section("decontaminate.json"), "--input", self.path("raw", part),
                    *(word for path in evaluation for word in ("--evaluation", path)), "--output", looked[-1],
                )  # fmt: skip
            self.verb(
                "clean", "--config", self.section("clean.json"), "--raw", self.path("raw", part),
                "--verdicts", self.path("verdicts", part), "--duplicates", folder / "duplicates.parquet",
                "--output", self.path("clean", part), "--removed", self.path("removed", part),
                *looked,
            )  # fmt: skip
        self.verb(
            "mixture", "--config", self.section("mixture.json"), *everything, "--output", self.corpus / "mixture.json"
        )

    def report(self) -> tuple[dict[str, Any], str]:
        page = self.folder / "report" / "corpus.html"
        self.verb(
            "report", "--corpus", self.corpus, "--parts", self.section("parts.json"),
            "--config", self.section("judge.json"), "--output-json", page.with_suffix(".json"), "--output-html", page,
        )  # fmt: skip
        return json.loads(page.with_suffix(".json").read_text()), page.read_text()


CorpusRunner = Callable[..., CorpusRun]


@pytest.fixture(scope="session")
def corpus_run(tmp_path_factory: pytest.TempPathFactory) -> CorpusRunner:
    """`corpus_run(sources, **corpus settings)`: a planned run in a new folder; nothing has run yet."""

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
            for number, files in enumerate(plan_parts(source, config.corpus.ingest)):
                parts.append(f"{source.name}/{number:05d}")
                write_stage(
                    folder / "config" / "ingest" / f"{parts[-1]}.json", ingest_stage(config, source, number, files)
                )
        for name, section in stage_sections(config).items():
            write_stage(folder / "config" / f"{name}.json", section)
        parts = parts[::-1] if reverse else parts
        (folder / "config" / "parts.json").write_text(json.dumps(parts))
        return CorpusRun(folder, config, parts)

    return plan


@pytest.fixture(scope="session")
def sample_run(corpus_run: CorpusRunner) -> CorpusRun:
    """The embedded sample, all the way, in several parts and hash partitions."""
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
