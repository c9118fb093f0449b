"""Find the tables of a run that are the inputs of another table.

The manifest of a table records the name and the digest of each input, such as `measures`. This module finds the tables
that the name stands for. An input may be one of several tables: texts are in `raw`, or in `stripped` if repeated lines
are removed. An input may also be the tables of all shards together, such as all keys of the deduplication. The digest
of such an input is the digest of the list of the tables' digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.json_member import read_member
from bloomery.contracts.part_names import corpus_of, earlier_parts, local_name, own_part
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.workflow_folder import workflow_folder

DigestOf = Callable[[str], str | None]
"""Function that returns the digest of a table from the path of its manifest. It returns None if the table does not
exist."""

_TEXTS = ("raw", "stripped")
_INPUTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "corpus/lines": {"documents": ("raw",)},
    "corpus/stripped": {"documents": ("raw",)},
    "corpus/measures": {"documents": _TEXTS},
    "corpus/verdicts": {"measures": ("measures",)},
    "corpus/contaminated": {"documents": _TEXTS},
    "corpus/keys": {"measures": ("measures",), "verdicts": ("verdicts",), "clean": ("clean",)},
    "corpus/members": {"measures": ("measures",), "text": _TEXTS},
    "corpus/clean": {"raw": _TEXTS, "verdicts": ("verdicts",), "contaminated": ("contaminated",)},
    "corpus/removed": {"raw": _TEXTS, "verdicts": ("verdicts",), "contaminated": ("contaminated",)},
}
"""Folder of a shard's table -> name of an input -> folders in which the input may be, for the same shard."""
_TOGETHER = {"keys", "members"}
"""Inputs that are the tables of all shards together."""
_OF_PARTITIONS = {"corpus/members", "corpus/clean", "corpus/removed"}
"""Folders whose tables have inputs in `corpus/duplicates`. The name of such an input is the name of its table."""


@dataclass(frozen=True)
class InputTables:
    """The tables with which one recorded digest can be compared."""

    manifests: tuple[str, ...]
    """Paths of the tables' manifests. They are strings, because `Path` objects are slow for the many tables of a large
    run."""
    together: bool = False
    """Whether the recorded digest is that of all tables together. Otherwise, it is that of one of the tables."""

    def digests(self, digest_of: DigestOf) -> list[str]:
        """Return the digests that the input may have now. The list is empty if a table that is needed is missing."""
        found = [digest_of(manifest) for manifest in self.manifests]
        known = [digest for digest in found if digest is not None]
        if not self.together:
            return known
        return [digest_json(known)] if known and len(known) == len(found) else []


class TableInputs:
    """The inputs of the tables of one run."""

    def __init__(self, paths: RunPaths) -> None:
        """Read the lists of shards.

        Raises:
            InputError: the list of shards or the section of the deduplication is damaged.
        """
        self._begin = f"{paths.run.as_posix()}/"
        self._corpus = paths.corpus.as_posix()
        self._against = earlier_runs(paths)
        parts = paths.config / "parts.json"
        own = read_part_names(parts) if parts.is_file() else []
        try:
            shards = [*own, *earlier_parts(self._against)]
        except InputError:
            shards = []  # An earlier run was deleted, so tables of all shards together cannot be compared.
        self._together = {
            folder: InputTables(tuple(f"{self._corpus}/{folder}/{shard}.json" for shard in shards), together=True)
            for folder in _TOGETHER
        }
        self._singles: dict[tuple[str, str], InputTables] = {}

    def place(self, manifest: str) -> tuple[str, str] | None:
        """Return the folder of a table in the run and its name in this folder; None for a table of another run.

        `runs/my/corpus/clean/web/00000.json` is at `corpus/clean` and has the name `web/00000`.
        """
        if not manifest.startswith(self._begin):
            return None
        top, folder, name = manifest[len(self._begin) :].removesuffix(".json").split("/", 2)
        return f"{top}/{folder}", name

    def of(self, manifest: str, names: Iterable[str]) -> Iterator[tuple[str, InputTables]]:
        """Yield the tables of each input of a table. Inputs that are not tables of a run are left out.

        Args:
            manifest: path of the table's manifest, below the folder of the run.
            names: names of the inputs in that manifest.
        """
        place = self.place(manifest)
        if place is None:
            return
        folder, shard = place
        for name in names:
            found = self._of_corpus(folder, shard, name) if folder.startswith("corpus/") else self._of(place, name)
            if found is not None:
                yield name, found

    def _of(self, place: tuple[str, str], name: str) -> InputTables | None:
        folder, shard = place
        if folder == "tokenizer/counts":
            return self._single("clean", shard)
        if name in ("bin", "idx"):
            return None  # an adopted pair of token files
        return self._single("clean" if "/" in name else "duplicates", name)

    def _of_corpus(self, folder: str, shard: str, name: str) -> InputTables | None:
        if folder == "corpus/duplicates":
            return self._together.get(name) or self._single("duplicates", name)
        if folder == "corpus/repeated_lines":
            return self._single("lines", name)
        if name.startswith("repeated_lines/"):
            return self._single("repeated_lines", name.partition("/")[2])
        found = _INPUTS.get(folder, {}).get(name)
        if found is None:
            return self._single("duplicates", name) if folder in _OF_PARTITIONS else None
        corpus = self._corpus
        if not own_part(shard):
            corpus = corpus_of(shard, Path(corpus), self._against).as_posix()
        return InputTables(tuple(f"{corpus}/{each}/{local_name(shard)}.json" for each in found))

    def _single(self, folder: str, name: str) -> InputTables:
        if (folder, name) not in self._singles:
            self._singles[folder, name] = InputTables((f"{self._corpus}/{folder}/{name}.json",))
        return self._singles[folder, name]


def earlier_runs(paths: RunPaths) -> list[str]:
    """Return the folders of the earlier runs whose texts this run must not repeat (`corpus.dedup.against`)."""
    section = paths.config / "dedup.json"
    if not section.is_file():
        return []
    folder = workflow_folder(paths)
    return [str(folder / str(run)) for run in read_member(section, "dedup", "against", kind=list)]
