"""Find the artefacts of a run that are older than what they were made from (`bloomery.contracts.lineage`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.digest import digest_ends, digest_file, digest_json, sha256_file
from bloomery.base.errors import BloomeryError, InputError
from bloomery.base.json_member import read_member
from bloomery.contracts import lineage
from bloomery.contracts.checkpoint import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    CheckpointManifest,
    read_manifest,
    step_folders,
    step_name,
)
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import last_record, read_result
from bloomery.contracts.resume_policy import Policy, differences, identity
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.segment import read_segment
from bloomery.contracts.stale_models import configured_name, model_names, published_names
from bloomery.contracts.stale_tables import TableSearch
from bloomery.contracts.tokenizer import tokenizer_files
from bloomery.contracts.train_stage import read_effective
from bloomery.contracts.workflow_folder import workflow_folder

CORPUS, TOKENIZER, INDEX, TRAINING, LOGS = "corpus", "tokenizer", "index", "training", "logs"
"""Artefacts of which a run has at most one. Models, published models and reports are `model <name>`, `published <name>`
and `report <name>`."""

_LENGTH = ("training.train_samples", "training.train_tokens")
_DAMAGED = (BloomeryError, OSError, AttributeError, KeyError, TypeError, ValueError)
"""Errors of a file that is missing, or whose content does not have the form of a run's file."""


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


@dataclass
class Found:
    """Result of the search in a run."""

    stale: dict[str, Stale] = field(default_factory=dict)
    """Stale artefacts by name, in the order of the stages."""
    unreadable: dict[str, list[BloomeryError]] = field(default_factory=dict)
    """Errors of files that exist but cannot be read, by the first artefact for which they are needed. What these files
    record is not compared."""

    @property
    def unreadable_files(self) -> list[str]:
        """Paths of the files that exist but cannot be read."""
        return [str(error.where) for errors in self.unreadable.values() for error in errors]


def stale_artefacts(paths: RunPaths) -> dict[str, Stale]:
    """Return every stale artefact of the run by its name, in the order of the stages.

    An artefact with a stale input is stale too. Damaged files are not reported here; their readers report them.
    """
    return find_stale(paths).stale


def stale_training(paths: RunPaths) -> Stale | None:
    """Return the training if it is stale, or else the last stale stage before it. Return None if none of them is
    stale."""
    stale = stale_artefacts(paths)
    return next((stale[name] for name in (TRAINING, INDEX, TOKENIZER, CORPUS) if name in stale), None)


def find_stale(paths: RunPaths) -> Found:
    """Return every stale artefact of the run, and the errors of files that could not be compared."""
    return _Search(paths).all()


class _Search:
    """The search in one run. Each file is read once."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._result = Found()
        self._found = self._result.stale
        self._errors: list[BloomeryError] = []
        self._now: dict[str, str | None] = {}
        self._sections: dict[str, Any] = {}
        self._listings: dict[str, list[str]] = {}
        self._tables: TableSearch | None = None
        self._configured = configured_name(paths)

    def all(self) -> Found:
        paths, results = self._paths, self._paths.results
        try:
            self._tables = TableSearch(paths, self._section)
        except _DAMAGED as error:
            self._note(error)
        self._check(CORPUS, "corpus", self._corpus)
        self._check(TOKENIZER, "tokenizer", self._tokenizer)
        self._check(INDEX, "index", self._index)
        self._check(TRAINING, "train", self._training)
        for name in model_names(paths):
            self._check(f"model {name}", "export", partial(self._model, name))
        for name in published_names(paths):
            self._check(f"published {name}", "publish", partial(self._published, name))
        for name, section in (("corpus", "judge.json"), ("tokenizer", "tokenizer_report.json"), ("training", None)):
            pointer = results / "report" / f"{name}.json"
            target = "train" if name == "training" else name
            self._check(f"report {name}", target, partial(self._pointer, pointer, section))
        self._check(LOGS, "publish", self._logs)
        return self._result

    def _check(self, artefact: str, target: str, cause: Callable[[], str | None]) -> None:
        try:
            older_than = cause()
        except _DAMAGED as error:
            self._note(error)
            older_than = None
        if older_than is not None:
            self._found[artefact] = Stale(artefact, older_than, target)
        errors = self._errors + (self._tables.unreadable if self._tables is not None else [])
        if errors:
            self._result.unreadable[artefact] = errors
            self._errors = []
            if self._tables is not None:
                self._tables.unreadable = []

    def _note(self, error: Exception) -> None:
        """Note the error of a file that exists. Missing files are no error, because a user may have deleted them."""
        if isinstance(error, BloomeryError):
            with contextlib.suppress(OSError):  # `where` may be a text that is too long for a path.
                if error.where is not None and Path(error.where).exists():
                    self._errors.append(error)
        elif not isinstance(error, FileNotFoundError):
            what = f"a file of the run does not have the form that this version of Bloomery writes ({error})"
            expected = "files that this version wrote; run the workflow again"
            self._errors.append(InputError(what, where=str(self._paths.run), expected=expected))

    def _pointer(self, pointer: Path, section: str | None) -> str | None:
        """Compare the inputs that a pointer records with the inputs as they are now."""
        return self._first_change(self._made_from(pointer), section)

    def _made_from(self, pointer: Path) -> Mapping[str, str]:
        record = last_record(pointer)
        return {} if record is None else read_result(record).made_from

    def _first_change(self, made_from: Mapping[str, str], section: str | None) -> str | None:
        """Return the first input that changed since the artefact was made.

        Return None if no input changed, or if the artefact records no inputs, as in earlier versions.
        """
        for name, digest in made_from.items():
            if name == lineage.SECTION:
                if section is not None and self._section_digest(section) not in (None, digest):
                    return f"its configuration (config/{section})"
                continue
            artefact = _ARTEFACT_OF.get(name, name)
            now = self._digest_now(name)
            if now is not None and now != digest:
                return f"the {_SHOWN.get(artefact, artefact)}"
            if artefact in self._found:
                return self._found[artefact].older_than
        return None

    def _section(self, name: str) -> Any:
        """Return the content of a section of the configuration; None if it does not exist or cannot be read."""
        if name not in self._sections:
            self._sections[name] = None
            path = self._paths.config / name
            if path.is_file():
                try:
                    self._sections[name] = read_json(path)
                except _DAMAGED as error:
                    self._note(error)
        return self._sections[name]

    def _section_digest(self, name: str) -> str | None:
        value = self._section(name)
        return None if value is None else digest_json(value)

    def _names(self, listing: str) -> list[str]:
        """Return the names of parts in a listing of the configuration; none if the listing does not exist."""
        if listing not in self._listings:
            path = self._paths.config / listing
            self._listings[listing] = read_part_names(path) if path.is_file() else []
        return self._listings[listing]

    def _digest_now(self, name: str) -> str | None:
        """Return the digest of an input as it is now; None if the input no longer exists or cannot be read."""
        if name not in self._now:
            try:
                self._now[name] = self._compute(name)
            except _DAMAGED as error:
                self._note(error)
                self._now[name] = None
        return self._now[name]

    def _compute(self, name: str) -> str | None:
        paths = self._paths
        if name == lineage.TEXTS:
            return self._tables_now(paths.corpus / "clean")
        if name == lineage.COUNTS:
            return self._tables_now(paths.tokenizer / "counts")
        if name == lineage.TOKEN_FILES:
            return self._adopted()
        if name == lineage.MIXTURE:
            return digest_file(paths.corpus / "mixture.json")
        if name == lineage.TOKENIZER_INPUT:
            return lineage.tokenizer_digest(paths.tokenizer)
        if name == lineage.CHECKPOINT:
            newest = self._newest_checkpoint
            return (
                None if newest is None else lineage.checkpoint_digest(paths.checkpoints / step_name(newest.iteration))
            )
        if name == lineage.TRAINING:
            return sha256_file(paths.finished)
        if name in _REPORT_INPUTS:
            record = last_record(paths.results / f"{_REPORT_INPUTS[name]}.json")
            return None if record is None else read_result(record).digest
        if name.startswith(lineage.IMPORTED):
            return self._imported(name.removeprefix(lineage.IMPORTED))
        return None

    def _tables_now(self, folder: Path) -> str | None:
        """Return the digest of the tables of all shards in a folder; None if one of them is missing."""
        if self._tables is None:
            return None
        digests = {part: self._tables.digest(f"{folder.as_posix()}/{part}.json") for part in self._names("parts.json")}
        known = {part: digest for part, digest in digests.items() if digest is not None}
        return lineage.texts_digest(known) if len(known) == len(digests) else None

    def _adopted(self) -> str | None:
        """Return the digest of the adopted token files; None if a manifest of a pair is missing."""
        tokens, pairs = self._paths.index / "tokens", {}
        for name in self._names("adopted.json"):
            record = (
                self._tables.table(lineage.token_manifest(tokens, name).as_posix())
                if self._tables is not None
                else None
            )
            if record is None:
                return None
            pairs[name] = lineage.adopted_pair(record.inputs, record.digest)
            for suffix, ends in record.ends.items():
                file = tokens / f"{name}.{suffix}"
                # The files may have many gigabytes, so only their sizes, beginnings and ends are compared here.
                if file.is_file() and digest_ends(file) != ends:
                    pairs[name]["changed"] = suffix
        return lineage.pairs_digest(pairs)

    def _imported(self, file: str) -> str | None:
        """Return the digest of a local file from which the tokenizer was imported; None if it no longer exists."""
        name = read_member(self._paths.config / "tokenizer.json", "tokenizer", "existing", kind=str)
        found = tokenizer_files(workflow_folder(self._paths) / Path(name).expanduser()).get(file)
        return None if found is None else sha256_file(found)

    def _corpus(self) -> str | None:
        paths, tables = self._paths, self._tables
        mixture = paths.corpus / "mixture.json"
        if tables is None or not mixture.is_file():
            return None
        parts = self._names("parts.json")
        absent = [part for part in parts if not (paths.corpus / "clean" / f"{part}.json").is_file()]
        if absent and len(absent) < len(parts):
            return f"its configuration (the part {absent[0]} is not in the corpus)"
        # Without clean shards, which a user may have deleted, the tables before them are compared.
        folders = ("verdicts", "keys") if absent else ("clean",)
        corpus = paths.corpus.as_posix()
        changes = [tables.change_of(f"{corpus}/{folder}/{part}.json") for part in parts for folder in folders]
        made_from = read_member(mixture, kind=dict).get("made_from")
        recorded = self._first_change(made_from if isinstance(made_from, dict) else {}, "mixture.json")
        return next((change for change in changes if change is not None), recorded)

    def _tokenizer(self) -> str | None:
        made_from = self._made_from(self._paths.results / "tokenizer.json")
        change = self._first_change(made_from, "tokenizer.json")
        if change is not None or lineage.TEXTS not in made_from or self._tables is None:
            return change
        folder = (self._paths.tokenizer / "counts").as_posix()
        counts = (f"{folder}/{part}.json" for part in self._names("parts.json"))
        return next((found for found in map(self._tables.change_of, counts) if found is not None), None)

    def _index(self) -> str | None:
        paths = self._paths
        made_from = self._made_from(paths.results / "index.json")
        change = self._first_change(made_from, "index.json")
        names = self._names("token_files.json")
        if change is not None or not made_from or not names or self._tables is None:
            return change
        pairs = read_index_manifest(paths.index_manifest).token_files if paths.index_manifest.is_file() else None
        if pairs is not None and [pair.name for pair in pairs] != names:
            return "its configuration (the list of token files)"
        manifests = (lineage.token_manifest(paths.index / "tokens", name).as_posix() for name in names)
        return next((found for found in map(self._tables.change_of, manifests) if found is not None), None)

    def _training(self) -> str | None:
        if self._paths.finished.is_file():
            read_segment(self._paths.finished)
        newest = self._newest_checkpoint
        if newest is None:
            return None
        return self._changed_training(newest) or self._upstream(INDEX)

    @cached_property
    def _newest_checkpoint(self) -> CheckpointManifest | None:
        """Manifest of the newest checkpoint that is not marked as damaged and can be read."""
        folders = [] if not self._paths.checkpoints.is_dir() else step_folders(self._paths.checkpoints)
        for folder in folders:
            if not (folder / DAMAGED_NAME).exists():
                try:
                    return read_manifest(folder)
                except InputError as error:
                    self._note(error)
        return None

    def _changed_training(self, newest: CheckpointManifest) -> str | None:
        paths = self._paths
        if not paths.index_manifest.is_file() or not (paths.config / "train.json").is_file():
            return None
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

    def _model(self, name: str) -> str | None:
        """Compare the inputs of a model. A checkpoint that a user chose need not be the newest one."""
        folder, configured = self._paths.export / name, name == self._configured
        if not folder.is_dir():
            return None
        self._made_from(self._paths.results / "export" / f"{name}.json")  # raises an error if the record is damaged
        parity = read_parity(folder)
        made_from = parity.made_from
        if parity.chosen:
            made_from = {key: digest for key, digest in made_from.items() if key != lineage.CHECKPOINT}
            checkpoint = self._paths.checkpoints / parity.checkpoint
            exists = (checkpoint / MANIFEST_NAME).is_file()
            if exists and lineage.checkpoint_digest(checkpoint) != parity.made_from.get(lineage.CHECKPOINT):
                return f"the checkpoint {parity.checkpoint}"
        change = self._first_change(made_from, "export.json" if configured else None)
        return change or (self._upstream(TRAINING) if parity.chosen else None)

    def _published(self, name: str) -> str | None:
        made_from = self._made_from(self._paths.results / "publish" / f"{name}.json")
        if not made_from:
            return None
        parity = self._paths.export / name / PARITY_NAME
        if parity.is_file() and made_from.get(lineage.PARITY) not in (None, sha256_file(parity)):
            return "the exported model"
        section = {key: value for key, value in made_from.items() if key == lineage.SECTION}
        configured = name == self._configured
        return self._upstream(f"model {name}") or self._first_change(section, "publish.json" if configured else None)

    def _logs(self) -> str | None:
        """Compare the inputs of the published logs: the end of the training, and the reports."""
        change = self._pointer(self._paths.results / "logs.json", None)
        return change if change is not None or not self._paths.finished.is_file() else self._upstream(TRAINING)


_REPORT_INPUTS = {f"report {name}": f"report/{name}" for name in lineage.REPORTS}
_SHOWN = {f"report {name}": f"report on the {name}" for name in lineage.REPORTS}
_ARTEFACT_OF: Mapping[str, Any] = {
    lineage.TEXTS: CORPUS,
    lineage.MIXTURE: CORPUS,
    lineage.TOKENIZER_INPUT: TOKENIZER,
    lineage.CHECKPOINT: TRAINING,
    lineage.TRAINING: TRAINING,
    lineage.COUNTS: "counts of pre-tokens",
    lineage.TOKEN_FILES: "adopted token files",
}
"""Artefact that each input belongs to."""
