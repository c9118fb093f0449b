"""Judge: measures and a table of limits per language become verdicts. Reads no text: re-cutting a corpus is cheap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.config.corpus import Thresholds
from bloomery.config.stages import JudgeStage
from bloomery.contracts.shard import read_manifest, read_table, write_table

WRONG_LANGUAGE = "wrong_language"
RULES = (*Thresholds.model_fields, WRONG_LANGUAGE)
"""Every rule, in the order in which they are tried: the first that fails is the document's `rule`."""

Bools = npt.NDArray[np.bool_]


def failures(measures: pa.Table, stage: JudgeStage) -> tuple[Bools, Bools]:
    """Which rules each document breaks.

    Returns:
        bool [rules, documents], rows as `RULES`; and bool [documents], the documents of trusted sources whose
        language disagrees, which is counted and not held against them.

    Raises:
        InputError: the measures are of an older version, without one that a limit asks for.
    """
    count = measures.num_rows
    broken = np.zeros((len(RULES), count), dtype=np.bool_)
    dictionary = measures["language"].combine_chunks().dictionary_encode()
    languages, codes = dictionary.dictionary.to_pylist(), np.asarray(dictionary.indices)
    for number, language in enumerate(languages):
        rows = np.flatnonzero(codes == number)
        limits = stage.thresholds.get(language) or stage.thresholds["default"]
        for rule, limit in limits.model_dump(exclude_none=True).items():
            bound, name = rule[:3], rule[4:]
            if name not in measures.column_names:
                raise InputError(
                    f"no measure {name}, which {rule} of {language} asks for",
                    where="corpus/measures",
                    expected="measures by this version: delete that folder, and the workflow measures again",
                )
            values = measures[name].to_numpy()[rows]
            broken[RULES.index(rule), rows] = values < limit if bound == "min" else values > limit
    disagrees = _disagreements(measures, stage, languages, codes)
    trusted = np.asarray(
        pc.is_in(measures["source"], value_set=pa.array(stage.trusted_sources, pa.string())).to_numpy()
    ).astype(np.bool_)
    broken[-1] = disagrees & ~trusted
    return broken, disagrees & trusted


def _disagreements(measures: pa.Table, stage: JudgeStage, languages: list[str], codes: npt.NDArray[Any]) -> Bools:
    """Documents whose accept set holds less than `language_id.min_share` of their bytes; short ones are not judged."""
    count = measures.num_rows
    found = measures["detected_codes"].combine_chunks()
    parents = np.asarray(pc.list_parent_indices(found))
    named, shares = found.flatten(), np.asarray(measures["detected_shares"].combine_chunks().flatten())
    accepted = np.zeros(count)
    judged = np.zeros(count, dtype=np.bool_)
    for number, language in enumerate(languages):
        accept = stage.accept.get(language, [])
        if not accept:
            continue
        rows = codes == number
        judged |= rows
        hit = np.asarray(pc.is_in(named, value_set=pa.array(accept, pa.string())), dtype=np.bool_) & rows[parents]
        accepted += np.bincount(parents[hit], weights=shares[hit], minlength=count)
    long_enough = measures["bytes"].to_numpy() >= stage.language_id.min_bytes
    # Shares are whole percents; half of one keeps 0.6 from failing 0.3 + 0.3.
    result: Bools = judged & long_enough & (accepted < stage.language_id.min_share - 0.005)
    return result


def verdicts(measures: pa.Table, broken: Bools) -> pa.Table:
    """Table `id, language, kept, rule, rules` of the documents, in the measures' order."""
    names = pa.array(RULES, pa.string())
    per_document = broken.T
    kept = ~per_document.any(axis=1)
    _, failing = np.nonzero(per_document)
    offsets = np.concatenate([[0], np.cumsum(per_document.sum(axis=1))]).astype(np.int32)
    first = names.take(pa.array(per_document.argmax(axis=1)))
    return pa.table(
        {
            "id": measures["id"],
            "language": measures["language"],
            "kept": pa.array(kept),
            "rule": pc.if_else(pa.array(kept), "", first),
            "rules": pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(failing))),
        }
    )


def judge(stage: JudgeStage, measures: Path, output: Path) -> dict[str, Any]:
    """Judge a table of measures into the table `output`; returns the manifest.

    The manifest counts, per language, documents, removals by first rule, and disagreements of trusted sources.

    Raises:
        InputError: the measures are missing or damaged.
    """
    manifest = read_manifest(measures)
    table = read_table(measures)
    broken, disagreeing = failures(table, stage)
    judged = verdicts(table, broken)
    counts: dict[str, Any] = {}
    encoded = table["language"].combine_chunks().dictionary_encode()
    # The first failing rule by its number; documents without one get the number after the last.
    first = np.where(broken.any(axis=0), broken.argmax(axis=0), len(RULES))
    for code, language in sorted(enumerate(encoded.dictionary.to_pylist()), key=lambda pair: pair[1]):
        mine = np.asarray(encoded.indices) == code
        numbers = np.bincount(first[mine], minlength=len(RULES))
        removed = {rule: int(number) for rule, number in zip(RULES, numbers, strict=False) if number}
        failing = {rule: int(broken[row, mine].sum()) for row, rule in enumerate(RULES) if broken[row, mine].any()}
        counts[language] = {
            "documents": int(mine.sum()),
            "removed": removed,
            "failing": failing,
            "trusted_disagreements": int(disagreeing[mine].sum()),
        }
    return write_table(
        output,
        judged,
        kind="verdicts",
        inputs={"measures": manifest["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"languages": counts},
    )
