"""Inputs and options of the rules, computed from the plan of the run and the values of a job's wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bloomery.contracts.part_names import corpus_of, local_name, own_part
from bloomery.orchestration.run_plan import RunPlan


def wildcard_values(names: Iterable[str]) -> dict[str, list[str]]:
    """Split part names such as `web/00000` into the values of the wildcards `source` and `part`.

    `collect(pattern, zip, **values)` then gives one file for each name.
    """
    pairs = [name.split("/") for name in names]
    return {"source": [source for source, _ in pairs], "part": [part for _, part in pairs]}


def one_of(names: Iterable[str]) -> str:
    """Return the regular expression of a wildcard that is one of `names`; without names it matches nothing."""
    return "|".join(sorted(map(re.escape, set(names)))) or "(?!)"


def files_of_part(plan: RunPlan, name: str) -> list[str]:
    """Return the source's own files that the part `name` reads; empty for a source that is not made of files."""
    return next(part.files for part in plan.parts if part.name == name)


def shards_of_pair(plan: RunPlan, name: str) -> list[str]:
    """Return the clean shards from which the pair of token files `name` is encoded, in order."""
    return [(plan.paths.corpus / "clean" / f"{shard}.parquet").as_posix() for shard in plan.token_groups[name]]


def key_tables(plan: RunPlan, shard: str) -> list[str]:
    """Return the tables from which the deduplication keys of `shard` are made.

    For a shard of an earlier run, the clean documents replace the verdicts.
    """
    folders = ("measures", "verdicts" if own_part(shard) else "clean")
    return [_table_of(plan, folder, shard) for folder in folders]


def member_tables(plan: RunPlan, shard: str) -> list[str]:
    """Return the tables from which the cluster members in `shard` are gathered.

    Tables that the search for duplicates wrote are not listed here. The texts of an earlier run are not read.
    """
    folders = ("measures", plan.config.corpus.texts) if own_part(shard) else ("measures",)
    return [_table_of(plan, folder, shard) for folder in folders]


def repeated_option(options: Mapping[str, Iterable[str]]) -> list[str]:
    """Return each file of each option after its flag, such as `--duplicates a --duplicates b --repeated c`."""
    return [word for option, paths in options.items() for path in paths for word in (f"--{option}", path)]


def adopt_options(plan: RunPlan, source: str) -> list[str]:
    """Return the settings of the token files of `source` as options of `bloomery index adopt`."""
    found = next(each for each in plan.config.adopted_sources if each.name == source)
    end = "--end-of-document" if found.ends_with_end_of_document else "--without-end-of-document"
    return ["--source", found.name, "--language", found.language, end]


def _table_of(plan: RunPlan, folder: str, shard: str) -> str:
    """Return the table of a shard; for a shard of an earlier run, the table in that run's folder."""
    corpus = corpus_of(shard, plan.paths.corpus, plan.config.corpus.dedup.against)
    return (corpus / folder / f"{local_name(shard)}.parquet").as_posix()
