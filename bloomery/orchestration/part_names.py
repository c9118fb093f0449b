"""Names of the parts that a corpus is made of: the run's own, and those of earlier runs that it must not repeat.

The workflow asks while it builds its graph, so this imports neither pyarrow nor numpy.
"""

from __future__ import annotations

from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError

EARLIER = "_earlier/"
"""No source's name begins with an underscore."""


def own_part(part: str) -> bool:
    """Whether a part is the run's own (`source/00000`), not an earlier run's (`_earlier/0/source/00000`)."""
    return not part.startswith(EARLIER)


def local_name(part: str) -> str:
    """`source/00000`: a part's name in its own run."""
    return part if own_part(part) else part.split("/", 2)[2]


def earlier_parts(against: list[str]) -> list[str]:
    """Names of the parts of earlier runs: `_earlier/<number of the run>/<source>/<part>`.

    Raises:
        InputError: a folder that is not that of a run.
    """
    names = []
    for number, run in enumerate(against):
        listing = Path(run) / "config" / "parts.json"
        parts = read_json(listing) if listing.is_file() else None
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise InputError("not the folder of a run", where=run, expected=_FINISHED)
        names += [f"{EARLIER}{number}/{part}" for part in parts]
    return names


def refuse_unfinished(against: list[str], own: Path) -> None:
    """Before any job: each earlier run must be another one than the run `own`, and its corpus finished.

    Raises:
        InputError: which one is not, and what is missing there.
    """
    for number, run in enumerate(against):
        if Path(run).resolve() == own.resolve():
            raise InputError("the run itself", where="corpus.dedup.against", expected=_FINISHED)
        needed = [Path("duplicates/clusters.json")]
        for name in earlier_parts(against[: number + 1]):
            if name.startswith(f"{EARLIER}{number}/"):
                part = local_name(name)
                needed += [Path(folder) / f"{part}{end}" for folder in ("measures", "clean") for end in _TABLE]
        for path in needed:
            if not (Path(run) / "corpus" / path).is_file():
                raise InputError(f"its corpus has no {path}", where=run, expected=_FINISHED)


_TABLE = (".parquet", ".json")
_FINISHED = "an earlier run with a finished corpus, made by this version (corpus.dedup.against)"


def corpus_of(part: str, corpus: Path, against: list[str]) -> Path:
    """The folder of the run's tables that a part belongs to: `corpus`, or that of one of the earlier runs."""
    return corpus if own_part(part) else Path(against[int(part.split("/", 2)[1])]) / "corpus"
