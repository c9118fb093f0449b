"""Make a small finished run with real files of every kind, for tests that change these files and read them again.

Nothing is trained. The checkpoint is made from a random model. The real stages make index, export and publication.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from fabricated_export import fabricate
from hostile_sources import CHECKPOINT, make_sources

from bloomery.base.atomic import dump_json, read_json, write_json
from bloomery.base.digest import document_id
from bloomery.base.self_digest import KEY
from bloomery.config.delivery import ExportConfig, PublishConfig
from bloomery.config.stages import (
    ExportStage,
    IndexStage,
    MixtureStage,
    PublishStage,
    TrainStage,
    write_stage,
)
from bloomery.contracts.checkpoint import REFERENCE_NAME, CheckpointManifest, write_manifest
from bloomery.contracts.file_entry import list_files
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.lease import LEASE_NAME, LeaseHolder, render_holder
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place
from bloomery.contracts.resume_policy import identity, saved_stage
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.segment import read_segment, write_segment
from bloomery.contracts.skips import Skip, Skips, write_skips
from bloomery.orchestration.prepare_run import PARTS_NAME, TOKEN_FILES_NAME
from data_prep.corpus.weigh_mixture import mixture
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table
from data_prep.index.build_index import build_index
from data_prep.index.encode import encode_shards
from export.export_model import export_model
from export.publish import publish_run

DOCUMENTS = {"web/00000": {"en": 30, "fr": 12}, "books/00000": {"en": 10, "fr": 8}}
WORDS = {"en": "the river runs to the sea", "fr": "a bird sings to the river"}


@dataclass(frozen=True)
class HostileRun:
    """The run and the sections of the configuration that its verbs need."""

    paths: RunPaths
    train: TrainStage
    export: ExportStage
    publish: PublishStage
    manifest: CheckpointManifest

    def at(self, folder: Path) -> HostileRun:
        """Return the same run, copied to `folder`."""
        return HostileRun(RunPaths(folder), self.train, self.export, self.publish, self.manifest)

    @property
    def checkpoint(self) -> Path:
        return self.paths.checkpoints / "step00000100"

    @property
    def sources(self) -> Path:
        """Folder of checkpoints and models that are exported, imported, inspected or resharded. No run has it."""
        return self.paths.run / "sources"

    @property
    def model(self) -> Path:
        return self.paths.export / self.export.model_name


def make_hostile_run(folder: Path) -> HostileRun:
    """Make the run in `folder`/runs/tiny."""
    made = fabricate(folder)
    paths, train = made.paths, saved_stage(made.manifest)
    publish = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig(hub=False))
    export = made.stage.model_copy(update={"export": ExportConfig()})
    for name, section in (("train", train), ("publish", publish), ("export", export)):
        write_stage(paths.config / f"{name}.json", section)
    _corpus(paths)
    _index(paths, train)
    manifest = made.manifest.model_copy(
        update={
            "identity": identity(train, read_index_manifest(paths.index_manifest)),
            "prefix": sample_prefix(read_index_manifest(paths.index_manifest), 400),
        }
    )
    write_manifest(made.checkpoint, manifest)
    run = HostileRun(paths, train, export, publish, manifest)
    export_model(export, paths, run.model)
    publish_run(publish, paths, Place.of(paths.results / "publish" / "tiny-bloom.json"))
    _training_files(paths, manifest)
    make_sources(run.sources, train, manifest, run.checkpoint / REFERENCE_NAME)
    _forget_own_digests(paths.run)
    return run


def _corpus(paths: RunPaths) -> None:
    """Write clean shards, the manifests of the raw shards, and the mixture."""
    rng = np.random.default_rng(0)
    for part, languages in DOCUMENTS.items():
        rows, counts = [], {}
        source = part.split("/", maxsplit=1)[0]
        for code, documents in languages.items():
            texts = [" ".join(rng.choice(WORDS[code].split(), 40)) for _ in range(documents)]
            rows += [(document_id(part, f"{code}/{n}"), source, code, text, "") for n, text in enumerate(texts)]
            size = {"documents": documents, "bytes": sum(len(text) for text in texts)}
            counts[code] = {"in": size, "out": size, "removed": {"min_words": {"documents": 1, "bytes": 9}}}
        columns = zip(zip(*rows, strict=True), DOCUMENT_SCHEMA, strict=True)
        table = pa.table([pa.array(values, field.type) for values, field in columns], schema=DOCUMENT_SCHEMA)
        totals = {key: sum(entry["out"][key] for entry in counts.values()) for key in ("documents", "bytes")}
        write_table(
            paths.corpus / "clean" / f"{part}.parquet",
            table,
            kind="documents",
            inputs={},
            parameters="",
            counts={"languages": counts, "out": totals},
        )
        write_json(paths.corpus / "raw" / f"{part}.json", {"counts": {"documents": len(rows) + 2, "bad_rows": 2}})
    for name in (PARTS_NAME, TOKEN_FILES_NAME):
        write_json(paths.config / name, list(DOCUMENTS))
    stage = MixtureStage.model_validate({"mixture": {}, "budget_bytes": None, "source_weights": {}})
    mixture(stage, paths.corpus, paths.config / PARTS_NAME, paths.corpus / "mixture.json")


def _index(paths: RunPaths, train: TrainStage) -> None:
    tokenizer = paths.tokenizer / "tokenizer.json"
    for part in DOCUMENTS:
        encode_shards(tokenizer, [paths.corpus / "clean" / f"{part}.parquet"], paths.index / "tokens" / part)
    stage = IndexStage(
        sequence_length=train.model.sequence_length,
        train_samples=train.training.train_samples,
        validation_samples=4,
        validation_share=0.1,
        seed=train.seed,
    )
    mixed = paths.corpus / "mixture.json"
    build_index(stage, paths.index, list(DOCUMENTS), mixed, tokenizer, paths.index_manifest)


def _training_files(paths: RunPaths, manifest: CheckpointManifest) -> None:
    """Write more records of metrics, the chain of segments, skipped samples, the lease and the state of syncs."""
    metrics = paths.logs / "metrics.jsonl"
    step, validation = metrics.read_text().splitlines()
    about = '"consumed_samples": 400, "consumed_tokens": 12800, "segment": 1, "time": "2026-01-01T00:00:00Z"'
    event = f'{{"iteration": 60, {about}, "event": "spike", "action": "log", "message": "a spike"}}'
    energy = f'{{"iteration": 100, {about}, "energy_kwh": 0.5, "co2_kg": 0.1, "nodes": 1, "estimated_kwh": 0.1}}'
    steps = [step.replace('"iteration": 100', f'"iteration": {number}', 1) for number in range(40, 101, 5)]
    metrics.write_text("".join(f"{line}\n" for line in (*steps[:-1], event, step, validation, energy)))
    segment = read_segment(paths.finished).model_copy(update={"identity": manifest.identity})
    for path in (paths.finished, paths.segments / "1.json", paths.segments / "history" / "1-1.json"):
        write_segment(path, segment)
    write_skips(paths, Skips(skips=[Skip(from_sample=396, to_sample=400, reason="a test")]))
    paths.train.joinpath(LEASE_NAME).write_text(render_holder(LeaseHolder(1, "elsewhere", None)))
    write_json(paths.starts, {"newest_iteration": 100, "starts": 1})
    write_json(paths.workflow_command, {"command": "snakemake", "folder": "/"})
    write_json(paths.sync_state, {"endpoint": "http://hub", "repository": "o/r", "synced": "2026-01-01T00:00:00Z"})
    (paths.run / ".lock").write_text('{"pid": 1, "host": "elsewhere", "command": "snakemake"}\n')
    (paths.run / "benchmarks").mkdir()
    (paths.run / "benchmarks" / "index.tsv").write_text("s\th:m:s\n1.5\t0:00:01\n")


def _forget_own_digests(folder: Path) -> None:
    """Remove the digests that JSON files contain of themselves, so that they are as earlier versions wrote them.

    With such a digest, nearly every change of a file is found before its values are read.
    """
    for path in folder.rglob("*.json"):
        value = json.loads(path.read_text())
        if isinstance(value, dict) and KEY in value:
            del value[KEY]
            path.write_text(dump_json(value))


def list_again(run: HostileRun) -> None:
    """Write the sizes and digests of the present files into the checkpoints' manifests and into parity.json.

    Then no digest reveals that a file was changed. The verbs read the file as if the run had written it so.
    """
    manifests = (run.checkpoint / "manifest.json", run.sources / CHECKPOINT / "manifest.json")
    for path in (*manifests, run.model / "parity.json"):
        value = read_json(path)
        entries = list_files(path.parent, omit={path.name})
        value["files"] = {name: entry.model_dump() for name, entry in entries.items()}
        write_json(path, value)
