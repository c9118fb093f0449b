"""Find tables that are older than what they were made from, by following the inputs that their manifests record.

The search follows only inputs whose digest matches, so tables that remain from an earlier configuration do not matter.
Each manifest is read once.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.digest import digest_json
from bloomery.base.errors import BloomeryError, InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.table_inputs import InputTables, TableInputs

_SECTIONS = {
    "corpus/lines": "lines.json",
    "corpus/repeated_lines": "repeated_lines.json",
    "corpus/stripped": "lines.json",
    "corpus/measures": "measure.json",
    "corpus/verdicts": "judge.json",
    "corpus/contaminated": "decontaminate.json",
    "corpus/keys": "dedup.json",
    "corpus/duplicates": "dedup.json",
    "corpus/members": "dedup.json",
    "corpus/clean": "clean.json",
    "tokenizer/counts": "count.json",
}
"""Section of the configuration that the tables in each folder were made with."""
_PARTITION = re.compile(r"(?:candidates|repeated|resolved|survivors)-(\d+)")
"""Tables of the deduplication that exist for each partition."""


@dataclass(frozen=True)
class Table:
    """What the manifest of a table records about the table's origin."""

    digest: str
    parameters: str
    """Digest of the section of the configuration."""
    inputs: dict[str, str]
    """Digest of each input by its name."""
    ends: dict[str, str]
    """For each file of an adopted pair of token files, by its suffix: digest of its size, beginning and end."""


def read_table_record(manifest: Path) -> Table:
    """Read what the manifest of a table records about the table's origin.

    Raises:
        FileNotFoundError: the manifest is missing.
        InputError: the manifest is damaged.
        TryAgainError: the disk or the file server does not respond.
    """
    value = _parsed(manifest)
    try:
        digest, parameters, inputs = value["file"]["digest"], value["parameters"], value["inputs"]
        ends = value.get("counts", {}).get("ends", {})
        texts = [digest, parameters, *inputs.values(), *ends.values()]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            "this is not the manifest of a table: it lacks `parameters`, `inputs` or the digest of the table's file",
            where=str(manifest),
            expected="a manifest that the workflow wrote; delete this file and run the workflow again",
        ) from error
    return Table(digest, parameters, inputs, ends)


def _parsed(manifest: Path) -> Any:
    """Return the content of a JSON file. Its numbers are not used. They are not checked, because that is slow."""
    try:
        return json.loads(manifest.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, RecursionError, ValueError):
        return read_json(manifest)  # This function raises an error that explains the damage.


class TableSearch:
    """The search among the tables of one run."""

    def __init__(self, paths: RunPaths, section: Callable[[str], Any]) -> None:
        """Prepare the search.

        Args:
            paths: the paths of the run.
            section: returns the content of a section of the configuration by its file name; None if it does not exist.

        Raises:
            InputError: the list of shards or the section of the deduplication is damaged.
        """
        self._paths = paths
        self._section = section
        self._inputs = TableInputs(paths)
        self._tables: dict[str, Table | None] = {}
        self._changes: dict[str, str | None] = {}
        self._parameters: dict[tuple[str, int | None], str | None] = {}
        self._together: dict[int, list[str]] = {}
        self.unreadable: list[BloomeryError] = []
        """Errors of manifests that exist but cannot be read. Their tables are not compared."""

    def table(self, manifest: str) -> Table | None:
        """Return what a manifest records; None if the manifest is missing or cannot be read."""
        if manifest not in self._tables:
            self._tables[manifest] = None
            try:
                with contextlib.suppress(FileNotFoundError):
                    self._tables[manifest] = read_table_record(Path(manifest))
            except BloomeryError as error:
                self.unreadable.append(error)
        return self._tables[manifest]

    def digest(self, manifest: str) -> str | None:
        """Return the digest of a table; None if its manifest is missing or cannot be read."""
        found = self.table(manifest)
        return None if found is None else found.digest

    def change_of(self, manifest: str) -> str | None:
        """Return what changed since a table, or a table that it was made from, was written.

        Return None if nothing changed, or if the manifest is missing or cannot be read.
        """
        if manifest not in self._changes:
            self._changes[manifest] = None  # A damaged manifest may name its own table as an input.
            found = self.table(manifest)
            place = self._inputs.place(manifest)
            if found is not None and place is not None:
                self._changes[manifest] = self._change(manifest, place, found)
        return self._changes[manifest]

    def _change(self, manifest: str, place: tuple[str, str], found: Table) -> str | None:
        folder, table = place
        if folder == "corpus/raw":
            return self._changed_source(table, found)
        if (section := _SECTIONS.get(folder)) is not None:
            named = _PARTITION.fullmatch(table) if folder == "corpus/duplicates" else None
            if self._parameters_now(section, int(named[1]) if named else None) not in (None, found.parameters):
                return f"its configuration (config/{section})"
        for name, tables in self._inputs.of(manifest, found.inputs):
            if (change := self._changed_input(tables, found.inputs[name])) is not None:
                return change
        return None

    def _changed_input(self, tables: InputTables, recorded: str) -> str | None:
        if tables.together:
            if id(tables) not in self._together:
                self._together[id(tables)] = tables.digests(self.digest)
            now = self._together[id(tables)]
        else:
            now = tables.digests(self.digest)
        if not now:
            return None
        if recorded not in now:
            names = [self._name(manifest) for manifest in tables.manifests]
            return f"{names[0].partition('/')[0]} of all shards" if tables.together else " or ".join(names)
        followed = (each for each in tables.manifests if tables.together or self.digest(each) == recorded)
        return next((change for change in map(self.change_of, followed) if change is not None), None)

    def _name(self, manifest: str) -> str:
        """Return the name of a table, such as `measures/web/00000`."""
        place = self._inputs.place(manifest)
        return manifest.removesuffix(".json") if place is None else f"{place[0].removeprefix('corpus/')}/{place[1]}"

    def _changed_source(self, part: str, found: Table) -> str | None:
        """Compare a raw shard with the section of its source. The list of files is not a part of the digest."""
        section = self._section(f"ingest/{part}.json")
        if not isinstance(section, dict):
            return None
        wanted = digest_json({key: value for key, value in section.items() if key != "files"})
        return None if found.parameters == wanted else f"its configuration (the source of {part})"

    def _parameters_now(self, section: str, partition: int | None) -> str | None:
        """Return the `parameters` that a table would record if it were made now; None if the section does not exist."""
        key = (section, partition)
        if key not in self._parameters:
            value = self._section(section)
            if section == "repeated_lines.json" and isinstance(value, dict):
                value = {name: each for name, each in value.items() if name != "memory_bytes"}
            now = value if partition is None else [value, partition]
            self._parameters[key] = None if value is None else digest_json(now)
        return self._parameters[key]
