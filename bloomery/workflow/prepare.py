"""Before the workflow's graph is built: write each stage's part of the configuration; say which shards there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import dump_json, read_json, write_if_changed
from bloomery.base.errors import InputError
from bloomery.config.corpus import IngestConfig
from bloomery.config.portion import Portion
from bloomery.config.run import RunConfig
from bloomery.config.sources import Source
from bloomery.config.stage_sections import ingest_stage, stage_sections
from bloomery.config.stages import IngestStage, read_stage, write_stage
from bloomery.contracts.paths import RunPaths

PlanParts = Callable[[Source, IngestConfig], list[Portion]]
"""Deals a source's files into parts, one ingest job each."""

PARTS_NAME = "parts.json"


@dataclass(frozen=True)
class Part:
    """One shard of the corpus: a part of one source."""

    source: str
    number: int
    portion: Portion

    @property
    def files(self) -> list[str]:
        """The source's own files that the part reads; none for a source that is fetched."""
        return self.portion.files or []

    @property
    def name(self) -> str:
        """`<source>/<number>`, as in the paths of its tables."""
        return f"{self.source}/{self.number:05d}"


def plan_run(config: RunConfig, plan_parts: PlanParts) -> list[Part]:
    """Every shard of the run, in order. Raises what `plan_parts` raises, and InputError when there is none."""
    parts = [
        Part(source.name, number, portion)
        for source in config.sources
        for number, portion in enumerate(plan_parts(source, config.corpus.ingest))
    ]
    if not parts:
        raise InputError("the sources hold nothing to read", where=config.name)
    return parts


def write_sections(config: RunConfig, parts: list[Part]) -> list[Path]:
    """Write the parts of the configuration that differ from what lies in the run's folder; returns what was written."""
    folder = RunPaths.of(config.root, config.name).config
    sources = {source.name: source for source in config.sources}
    sections = {folder / f"{name}.json": section for name, section in stage_sections(config).items()}
    for part in parts:
        section = ingest_stage(config, sources[part.source], part.number, *part.portion)
        sections[folder / "ingest" / f"{part.name}.json"] = section
    written = [path for path, section in sections.items() if write_stage(path, section)]
    listing = folder / PARTS_NAME
    if write_if_changed(listing, dump_json([part.name for part in parts])):
        written.append(listing)
    return written


def read_parts(run: RunPaths) -> list[Part]:
    """The shards as the workflow last planned them: what a job sees, so that it never looks for files again."""
    parts = []
    for name in read_json(run.config / PARTS_NAME):
        stage = read_stage(run.config / "ingest" / f"{name}.json", IngestStage)
        parts.append(Part(stage.source.name, stage.part, Portion(stage.files, stage.piece)))
    return parts


def other_shards(run: RunPaths, parts: list[Part]) -> list[Path]:
    """Files of clean and removed documents of parts that the run has no more: of another source, or a smaller shard."""
    known = {part.name for part in parts}
    return [
        path
        for folder in ("clean", "removed")
        for path in sorted((run.corpus / folder).glob("*/*"))
        if f"{path.parent.name}/{path.stem}" not in known and path.suffix in (".parquet", ".json")
    ]


def check_run(run: Path) -> None:
    """Raise InputError when `run` is no folder of a run."""
    if not (run / "config" / PARTS_NAME).is_file():
        what = "not a run" if run.is_dir() else "no such folder"
        raise InputError(what, where=str(run), expected="the folder of a run, such as runs/sample")
