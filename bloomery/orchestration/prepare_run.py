"""Prepare a run before the workflow's graph is built: plan its parts, and write each stage's section."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import dump_json, write_if_changed
from bloomery.base.digest import sha256_file
from bloomery.base.errors import BloomeryError, InputError
from bloomery.base.self_digest import with_own_digest
from bloomery.config.corpus import IngestConfig
from bloomery.config.part_input import PartInput
from bloomery.config.run import RunConfig
from bloomery.config.section import Section
from bloomery.config.sources import AnySource, MegatronSource
from bloomery.config.stages import AdoptStage, IngestStage, read_stage, write_stage
from bloomery.contracts.checkpoint import newest_manifest
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.resume_policy import changes_since
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.train_stage import read_effective
from bloomery.orchestration.stage_sections import adopt_stage, ingest_stage, stage_sections

PlanParts = Callable[[AnySource, IngestConfig], list[PartInput]]
"""Function that splits a source's files into parts. One job reads one part."""

PARTS_NAME = "parts.json"
"""File that lists the names of the text shards."""
ADOPTED_NAME = "adopted.json"
"""File that lists the names of the adopted pairs of token files, which the run uses unchanged."""
SECTIONS_NAME = "sections.json"
"""File with the SHA-256 of every section and listing."""
TOKEN_FILES_NAME = "token_files.json"
"""File that lists the names of all pairs of token files in index order: encoded pairs, then adopted pairs."""


@dataclass(frozen=True)
class Part:
    """One part of a source: a shard of text, or an adopted pair of token files."""

    source: str
    number: int
    portion: PartInput
    adopted: bool = False
    """Whether the part is a pair of token files."""

    @property
    def files(self) -> list[str]:
        """The source's own files that the part reads; empty for a source that is not made of files."""
        return self.portion.files or []

    @property
    def name(self) -> str:
        """Name of the part, `<source>/<number>`, as in the paths of its tables."""
        return f"{self.source}/{self.number:05d}"


def plan_run(config: RunConfig, plan_parts: PlanParts) -> list[Part]:
    """Return every text shard of the run in order, then every adopted pair of token files.

    Raises:
        InputError: the sources have no parts.
        ConfigError: a source's paths are wrong (see `plan_parts`).
    """
    parts = [
        Part(source.name, number, portion, isinstance(source, MegatronSource))
        for source in (*config.text_sources, *config.adopted_sources)
        for number, portion in enumerate(plan_parts(source, config.corpus.ingest))
    ]
    if not parts:
        raise InputError(
            f"the sources contain nothing to read for the run {config.name!r}",
            where="sources",
            expected="at least one source with a file to read",
        )
    return parts


def token_groups(parts: list[Part], shards_per_file: int) -> dict[str, list[str]]:
    """Return the shards that each encoded pair of token files holds, by the pair's name.

    A pair holds up to `shards_per_file` consecutive shards of one source and has the name of the first shard.
    """
    groups: dict[str, list[str]] = {}
    for part in parts:
        if not part.adopted:
            first = part.number - part.number % shards_per_file
            groups.setdefault(f"{part.source}/{first:05d}", []).append(part.name)
    return groups


def write_sections(config: RunConfig, parts: list[Part]) -> list[Path]:
    """Write every section and listing whose content changed; return the paths that were written."""
    folder = RunPaths.of(config.root, config.name).config
    texts = {source.name: source for source in config.text_sources}
    adopted = {source.name: source for source in config.adopted_sources}
    sections = {folder / f"{name}.json": section for name, section in stage_sections(config).items()}
    for part in parts:
        section: Section
        if part.adopted:
            section = adopt_stage(adopted[part.source], part.number, part.files)
        else:
            section = ingest_stage(config, texts[part.source], part.number, *part.portion)
        sections[folder / ("adopt" if part.adopted else "ingest") / f"{part.name}.json"] = section
    written = [path for path, section in sections.items() if write_stage(path, section)]
    if folder / "train.json" in written:
        _keep_finished_training(RunPaths.of(config.root, config.name))
    listings = {
        PARTS_NAME: [part.name for part in parts if not part.adopted],
        ADOPTED_NAME: [part.name for part in parts if part.adopted],
        TOKEN_FILES_NAME: [
            *token_groups(parts, config.index.shards_per_file),
            *(part.name for part in parts if part.adopted),
        ],
    }
    written += [folder / name for name, names in listings.items() if write_if_changed(folder / name, dump_json(names))]
    own = [*sections, *(folder / name for name in listings)]
    digests = {path.relative_to(folder).as_posix(): sha256_file(path) for path in own}
    write_if_changed(folder / SECTIONS_NAME, dump_json(with_own_digest(digests)))
    return written


def _keep_finished_training(paths: RunPaths) -> None:
    """Set the modification time of config/train.json back if the changed keys do not affect a finished training.

    Snakemake runs a stage again if its section is newer than its output. With a newer section, the workflow would train
    nothing, but it would export the model again.
    """
    train = paths.config / "train.json"
    try:
        newest = newest_manifest(paths.checkpoints) if paths.finished.is_file() else None
        if newest is None or changes_since(newest, read_effective(train, paths)):
            return
        first = min(segment.stat().st_mtime_ns for segment in paths.segments.glob("[0-9]*.json"))
        os.utime(train, ns=(first, first))
    except (BloomeryError, OSError, ValueError):
        return  # The training's job reports missing and damaged files.


def read_parts(run: RunPaths) -> list[Part]:
    """Read the parts as the workflow last planned them. Jobs read them here, so they never search for files again."""
    parts = []
    for name in read_part_names(run.config / PARTS_NAME):
        stage = read_stage(run.config / "ingest" / f"{name}.json", IngestStage)
        parts.append(Part(stage.source.name, stage.part, PartInput(stage.files, stage.piece)))
    for name in read_part_names(run.config / ADOPTED_NAME):
        pair = read_stage(run.config / "adopt" / f"{name}.json", AdoptStage)
        parts.append(Part(pair.source.name, pair.part, PartInput(pair.files), adopted=True))
    return parts


def other_shards(run: RunPaths, parts: list[Part]) -> list[Path]:
    """Return the files of clean and removed documents whose part is not in `parts`.

    Such files remain if an earlier configuration had other sources or a smaller shard size.
    """
    known = {part.name for part in parts if not part.adopted}
    return [
        path
        for folder in ("clean", "removed")
        for path in sorted((run.corpus / folder).glob("*/*"))
        if f"{path.parent.name}/{path.stem}" not in known and path.suffix in (".parquet", ".json")
    ]


def check_run(run: Path) -> None:
    """Raise InputError if `run` is not the folder of a run."""
    if not (run / "config" / PARTS_NAME).is_file():
        what = "not a folder" if run.exists() else "no such folder"
        what = f"not a run, because it has no config/{PARTS_NAME}" if run.is_dir() else what
        raise InputError(what, where=str(run), expected="the folder of a run, such as runs/sample")
