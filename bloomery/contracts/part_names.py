"""Names of the parts of a corpus: the run's own parts, and parts of earlier runs whose texts it must not repeat.

The workflow imports this module while it builds its graph, so the module imports neither pyarrow nor numpy.
"""

from __future__ import annotations

from pathlib import Path

from bloomery.base.errors import InputError
from bloomery.contracts.safe_path import read_part_names

EARLIER = "_earlier/"
"""Prefix of the parts of earlier runs. It cannot be a source, because no source's name begins with an underscore."""


def own_part(part: str) -> bool:
    """Return whether a part belongs to this run (`source/00000`), not to an earlier run (`_earlier/0/source/00000`)."""
    return not part.startswith(EARLIER)


def local_name(part: str) -> str:
    """Return the name of a part within the run that it belongs to, such as `source/00000`."""
    return part if own_part(part) else part.split("/", 2)[2]


def earlier_parts(against: list[str]) -> list[str]:
    """Return the names of the parts of earlier runs: `_earlier/<position in `against`>/<source>/<part>`.

    Raises:
        InputError: a folder in `against` is not the folder of a run.
    """
    names = []
    for number, run in enumerate(against):
        listing = Path(run) / "config" / "parts.json"
        if not listing.is_file():
            raise InputError("not the folder of a run", where=run, expected=_FINISHED)
        try:
            parts = read_part_names(listing)
        except InputError as error:
            raise InputError("not the folder of a run", where=run, expected=_FINISHED) from error
        names += [f"{EARLIER}{number}/{part}" for part in parts]
    return names


def refuse_unfinished(against: list[str], own: Path) -> None:
    """Check, before any job starts, that no earlier run is the run `own` and that each one has a finished corpus.

    Raises:
        InputError: an earlier run is the run itself, or a file of its corpus is missing.
    """
    for number, run in enumerate(against):
        if Path(run).resolve() == own.resolve():
            raise InputError(
                "one of these folders is the folder of this run itself",
                where="corpus.dedup.against",
                expected=_FINISHED,
            )
        needed = [Path("duplicates/clusters.json")]
        for name in earlier_parts(against[: number + 1]):
            if name.startswith(f"{EARLIER}{number}/"):
                part = local_name(name)
                needed += [Path(folder) / f"{part}{end}" for folder in ("measures", "clean") for end in _TABLE]
        for path in needed:
            if not (Path(run) / "corpus" / path).is_file():
                raise InputError(f"the corpus of this earlier run has no {path}", where=run, expected=_FINISHED)


_TABLE = (".parquet", ".json")
_FINISHED = (
    "in corpus.dedup.against, the folder of an earlier run whose corpus is finished and was made by this version of "
    "Bloomery"
)


def corpus_of(part: str, corpus: Path, against: list[str]) -> Path:
    """Return the corpus folder that holds the tables of `part`: `corpus`, or the corpus of an earlier run."""
    return corpus if own_part(part) else Path(against[int(part.split("/", 2)[1])]) / "corpus"
