"""Find the artefacts of a run that are older than what they were made from (`bloomery.contracts.lineage`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bloomery.base.digest import digest_file, digest_json, sha256_file
from bloomery.base.errors import BloomeryError
from bloomery.base.json_member import read_member
from bloomery.contracts import lineage
from bloomery.contracts.checkpoint import MANIFEST_NAME, CheckpointManifest, newest_manifest, step_name
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import last_record, read_result
from bloomery.contracts.resume_policy import Policy, differences, identity
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.train_stage import read_effective

CORPUS, TOKENIZER, INDEX, TRAINING = "corpus", "tokenizer", "index", "training"
"""Artefacts of which a run has one. Models, published models and reports are `model <name>`, `published <name>` and
`report <name>`."""
_PARTS = "parts.json"
_SHARD_STAGES: tuple[tuple[str, str, Mapping[str, tuple[str, ...]]], ...] = (
    ("stripped", "lines.json", {"documents": ("raw",)}),
    ("measures", "measure.json", {"documents": ("raw", "stripped")}),
    ("verdicts", "judge.json", {"measures": ("measures",)}),
    ("contaminated", "decontaminate.json", {"documents": ("raw", "stripped")}),
    ("keys", "dedup.json", {"measures": ("measures",), "verdicts": ("verdicts",)}),
    ("clean", "clean.json", {"raw": ("raw", "stripped"), "verdicts": ("verdicts",)}),
)
"""Table of a shard, its section of the configuration, and the tables from which each of its inputs may come."""


_LENGTH = ("training.train_samples", "training.train_tokens")
_DAMAGED = (BloomeryError, OSError, AttributeError, KeyError, TypeError, ValueError)
"""Errors of a file that is missing, or whose content has another form than that of a run's file."""


@dataclass(frozen=True)
class Stale:
    """An artefact that is older than what it was made from."""

    artefact: str
    older_than: str
    """What changed after the artefact was made, such as `the corpus`."""
    target: str
    """Target of the workflow that builds the artefact again."""

    def __str__(self) -> str:
        return f"older than {self.older_than}"


def stale_artefacts(paths: RunPaths) -> dict[str, Stale]:
    """Return every stale artefact of the run by its name, in the order of the stages.

    An artefact with a stale input is stale too. Damaged files are not reported here; their readers report them.
    """
    return _Search(paths).all()


class _Search:
    """The search in one run. Digests of inputs are computed once."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._found: dict[str, Stale] = {}
        self._now: dict[str, str | None] = {}
        self._sections: dict[str, str | None] = {}

    def all(self) -> dict[str, Stale]:
        paths = self._paths
        self._check(CORPUS, "corpus", self._corpus)
        self._check(TOKENIZER, "tokenizer", partial(self._result, paths.results / "tokenizer.json", "tokenizer.json"))
        self._check(INDEX, "index", partial(self._result, paths.results / "index.json", "index.json"))
        self._check(TRAINING, "train", self._training)
        # The workflow builds only the model of this name. Models of other names were exported under an old name or by
        # hand.
        name = self._model_name()
        self._check(f"model {name}", "export", partial(self._model, paths.export / name))
        published = paths.results / "publish" / f"{name}.json"
        self._check(f"published {name}", "publish", partial(self._published, published, name))
        for name, section in (("corpus", "judge.json"), ("tokenizer", "tokenizer_report.json"), ("training", None)):
            pointer = paths.results / "report" / f"{name}.json"
            target = "train" if name == "training" else name
            self._check(f"report {name}", target, partial(self._result, pointer, section))
        return self._found

    def _check(self, artefact: str, target: str, cause: Callable[[], str | None]) -> None:
        try:
            older_than = cause()
        except _DAMAGED:
            return
        if older_than is not None:
            self._found[artefact] = Stale(artefact, older_than, target)

    def _result(self, pointer: Path, section: str | None) -> str | None:
        """Compare the inputs that a pointer records with the inputs as they are now."""
        record = last_record(pointer)
        return None if record is None else self._first_change(read_result(record).made_from, section)

    def _first_change(self, made_from: Mapping[str, str], section: str | None) -> str | None:
        """Return the first input that changed since the artefact was made.

        Artefacts of earlier versions record no inputs, so nothing is known about them.
        """
        for name, digest in made_from.items():
            if name == lineage.SECTION:
                if section is not None and self._section(section) not in (None, digest):
                    return f"its configuration (config/{section})"
                continue
            artefact = _ARTEFACT_OF.get(name, name)
            now = self._digest_now(name)
            if now is not None and now != digest:
                return f"the {artefact}"
            if artefact in self._found:
                return self._found[artefact].older_than
        return None

    def _section(self, name: str) -> str | None:
        """Return the digest of a section of the configuration; None if the section does not exist."""
        if name not in self._sections:
            path = self._paths.config / name
            self._sections[name] = lineage.section_digest(path) if path.is_file() else None
        return self._sections[name]

    def _digest_now(self, name: str) -> str | None:
        """Return the digest of an input as it is now; None if the input no longer exists."""
        if name not in self._now:
            try:
                self._now[name] = self._compute(name)
            except _DAMAGED:
                self._now[name] = None
        return self._now[name]

    def _compute(self, name: str) -> str | None:
        paths = self._paths
        if name == lineage.TEXTS:
            return lineage.clean_texts(paths.corpus / "clean", read_part_names(paths.config / _PARTS))
        if name == lineage.MIXTURE:
            return digest_file(paths.corpus / "mixture.json")
        if name == lineage.TOKENIZER_INPUT:
            return lineage.tokenizer_digest(paths.tokenizer)
        if name == lineage.CHECKPOINT:
            newest = newest_manifest(paths.checkpoints)
            return (
                None if newest is None else lineage.checkpoint_digest(paths.checkpoints / step_name(newest.iteration))
            )
        if name == lineage.TRAINING:
            return sha256_file(paths.finished)
        return None

    def _corpus(self) -> str | None:
        paths = self._paths
        mixture = paths.corpus / "mixture.json"
        if not mixture.is_file():
            return None
        parts = read_part_names(paths.config / _PARTS)
        absent = [part for part in parts if not (paths.corpus / "clean" / f"{part}.json").is_file()]
        if absent and len(absent) < len(parts):
            return f"its configuration (the part {absent[0]} is not in the corpus)"
        for part in parts:
            if (change := self._shard(part)) is not None:
                return change
        made_from = read_member(mixture, kind=dict).get("made_from")
        return self._first_change(made_from if isinstance(made_from, dict) else {}, "mixture.json")

    def _shard(self, part: str) -> str | None:
        """Return what changed since the tables of a shard were written."""
        corpus, config = self._paths.corpus, self._paths.config
        raw = corpus / "raw" / f"{part}.json"
        ingest = config / "ingest" / f"{part}.json"
        if raw.is_file() and ingest.is_file():
            wanted = {key: value for key, value in read_member(ingest, kind=dict).items() if key != "files"}
            if read_member(raw, kind=dict).get("parameters") != digest_json(wanted):
                return f"its configuration (the source of {part})"
        for folder, section, inputs in _SHARD_STAGES:
            manifest = corpus / folder / f"{part}.json"
            if not manifest.is_file():
                continue
            if self._section(section) not in (None, read_member(manifest, kind=dict).get("parameters")):
                return f"its configuration (config/{section})"
            told = lineage.inputs_of(manifest)
            for name, folders in inputs.items():
                now = list(self._tables(folders, part))
                if name in told and now and told[name] not in now:
                    return f"{' or '.join(folders)}/{part}"
        return None

    def _tables(self, folders: tuple[str, ...], part: str) -> Iterator[str]:
        for folder in folders:
            manifest = self._paths.corpus / folder / f"{part}.json"
            if manifest.is_file():
                yield lineage.table_digest(manifest)

    def _training(self) -> str | None:
        newest = newest_manifest(self._paths.checkpoints)
        if newest is None:
            return None
        return self._changed_training(newest) or self._upstream(INDEX)

    def _changed_training(self, newest: CheckpointManifest) -> str | None:
        paths = self._paths
        index = read_index_manifest(paths.index_manifest)
        stage = read_effective(paths.config / "train.json", paths)
        changed = [each for each in differences(newest, stage) if each.policy is not Policy.FREE]
        if paths.finished.is_file() and stage.training.on_change == "continue":
            # The training is finished and need not be repeated, unless it was made longer.
            changed = [each for each in changed if each.policy is Policy.NEVER or each.key in _LENGTH]
        if changed:
            return f"its configuration ({', '.join(each.key for each in changed[:3])})"
        if newest.identity != identity(stage, index):
            return "the tokenizer"
        return None if newest.prefix == sample_prefix(index, newest.consumed_samples) else "the index"

    def _upstream(self, artefact: str) -> str | None:
        return self._found[artefact].older_than if artefact in self._found else None

    def _model_name(self) -> str:
        section = self._paths.config / "export.json"
        try:
            return read_member(section, "model_name", kind=str)
        except _DAMAGED:
            return self._paths.run.name

    def _model(self, folder: Path) -> str | None:
        """Compare the inputs of a model. A checkpoint that a user chose need not be the newest one."""
        parity = read_parity(folder)
        made_from = parity.made_from
        if parity.chosen:
            made_from = {name: digest for name, digest in made_from.items() if name != lineage.CHECKPOINT}
            checkpoint = self._paths.checkpoints / parity.checkpoint
            exists = (checkpoint / MANIFEST_NAME).is_file()
            if exists and lineage.checkpoint_digest(checkpoint) != parity.made_from.get(lineage.CHECKPOINT):
                return f"the checkpoint {parity.checkpoint}"
        return self._first_change(made_from, "export.json") or (self._upstream(TRAINING) if parity.chosen else None)

    def _published(self, pointer: Path, name: str) -> str | None:
        record = last_record(pointer)
        if record is None:
            return None
        made_from = read_result(record).made_from
        parity = self._paths.export / name / PARITY_NAME
        if parity.is_file() and made_from.get(lineage.PARITY) not in (None, sha256_file(parity)):
            return "the exported model"
        return self._upstream(f"model {name}") or self._first_change(
            {key: value for key, value in made_from.items() if key == lineage.SECTION}, "publish.json"
        )


_ARTEFACT_OF: Mapping[str, Any] = {
    lineage.TEXTS: CORPUS,
    lineage.MIXTURE: CORPUS,
    lineage.TOKENIZER_INPUT: TOKENIZER,
    lineage.CHECKPOINT: TRAINING,
    lineage.TRAINING: TRAINING,
}
"""Artefact that each input belongs to."""
