"""Judge: compare measures with the limits of each language and write verdicts. No text is read, so a rerun is cheap."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.config.corpus import Thresholds
from bloomery.config.languages import CODE
from bloomery.config.stages import JudgeStage
from data_prep.corpus.code import is_permitted
from data_prep.formats.shard import TableWriter, iterate_batches, read_manifest

WRONG_LANGUAGE = "wrong_language"
EMPTY = "empty"
LICENCE = "licence"
RULES = (EMPTY, WRONG_LANGUAGE, LICENCE, *Thresholds.model_fields)
"""All rules, in the order in which they are tried. The first rule that a document fails is its `rule`."""

Bools = npt.NDArray[np.bool_]
BATCH_ROWS = 16_384
"""Number of documents that are judged together. It affects only the memory used."""
VERDICT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("language", pa.string()),
        ("kept", pa.bool_()),
        ("rule", pa.string()),
        ("rules", pa.list_(pa.string())),
    ]
)
_THIS_VERSION = "measures of this version; delete the folder corpus/measures of this run and run the workflow again"


def failures(measures: pa.Table, stage: JudgeStage) -> tuple[Bools, Bools]:
    """Return which rules each document fails. A document with only white space fails `empty`, whatever the limits.

    Returns:
        bool [rules, documents] with rows in the order of `RULES`, and bool [documents]. The second array marks the
        documents of trusted sources whose detected language disagrees with the label. They are counted, not removed.

    Raises:
        InputError: the measures are from an older version and lack a measure that a limit needs.
    """
    count = measures.num_rows
    broken = np.zeros((len(RULES), count), dtype=np.bool_)
    broken[RULES.index(EMPTY)] = measures["lines"].to_numpy() == 0
    dictionary = measures["language"].combine_chunks().dictionary_encode()
    languages, codes = dictionary.dictionary.to_pylist(), np.asarray(dictionary.indices)
    sources = measures["source"].combine_chunks().dictionary_encode()
    pairs = product(enumerate(sources.dictionary.to_pylist()), enumerate(languages))
    for (source_number, source), (number, language) in pairs:
        rows = np.flatnonzero((codes == number) & (np.asarray(sources.indices) == source_number))
        limits = stage.limits(source, language)
        for rule, limit in limits.model_dump(exclude_none=True).items():
            bound, name = rule[:3], rule[4:]
            if name not in measures.column_names:
                raise InputError(
                    f"there is no measure {name!r}, which the limit {rule!r} of the language {language!r} needs",
                    where="corpus/measures",
                    expected=_THIS_VERSION,
                )
            values = measures[name].to_numpy()[rows]
            broken[RULES.index(rule), rows] = values < limit if bound == "min" else values > limit
    disagrees = _disagreements(measures, stage, languages, codes)
    trusted = np.asarray(
        pc.is_in(measures["source"], value_set=pa.array(stage.trusted_sources, pa.string())).to_numpy()
    ).astype(np.bool_)
    broken[RULES.index(WRONG_LANGUAGE)] = disagrees & ~trusted
    broken[RULES.index(LICENCE)] = _unlicensed(measures, stage)
    return broken, disagrees & trusted


def _with_detectable(stage: JudgeStage, manifest: dict[str, Any]) -> JudgeStage:
    """Return the stage without the accept sets that contain no detectable code.

    Documents of the languages with such an accept set keep their label.
    """
    detectable = manifest["counts"].get("detectable")
    if detectable is None:
        raise InputError(
            "a manifest (.json) does not list the languages that the detector can return (counts.detectable)",
            where="corpus/measures",
            expected=_THIS_VERSION,
        )
    accept = {language: codes for language, codes in stage.accept.items() if not {*codes}.isdisjoint(detectable)}
    return stage.model_copy(update={"accept": accept})


def _unlicensed(measures: pa.Table, stage: JudgeStage) -> Bools:
    """Return bool [documents]: true for source code whose licence is not permitted.

    A document whose row states no licence has the licence of its source.
    """
    result = np.zeros(measures.num_rows, dtype=np.bool_)
    if not stage.code_licences:
        return result
    code = np.flatnonzero(np.asarray(pc.equal(measures["language"], CODE)))
    rows = measures.select(["source", "licence"]).take(pa.array(code))
    stated = zip(rows["source"].to_pylist(), rows["licence"].to_pylist(), strict=True)
    permitted: dict[str, bool] = {}
    for row, (source, own) in zip(code, stated, strict=True):
        licence = own or stage.source_licences.get(source, "")
        if licence not in permitted:
            permitted[licence] = is_permitted(licence, stage.code_licences)
        result[row] = not permitted[licence]
    return result


def _disagreements(measures: pa.Table, stage: JudgeStage, languages: list[str], codes: npt.NDArray[Any]) -> Bools:
    """Return bool [documents]: true if less than `language_id.min_share` of the bytes is in an accepted language.

    The value is false for documents shorter than `language_id.min_bytes`.
    """
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
    # Shares are whole percents. With a tolerance of half a percent, 0.3 + 0.3 does not fail a limit of 0.6.
    result: Bools = judged & long_enough & (accepted < stage.language_id.min_share - 0.005)
    return result


def verdicts(measures: pa.Table, broken: Bools) -> pa.Table:
    """Return the table `id, language, kept, rule, rules`, with documents in the order of the measures."""
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
        },
        schema=VERDICT_SCHEMA,
    )


def judge(stage: JudgeStage, measures: Path, output: Path) -> dict[str, Any]:
    """Judge a table of measures, write the verdicts to the table `output`, and return its manifest.

    The manifest counts, per language, documents, removals by first failing rule, failures by rule, and trusted
    documents (from sources with trusted labels) whose detected language disagrees with the label.

    Raises:
        InputError: the measures are missing, damaged or from an older version.
    """
    manifest = read_manifest(measures)
    judging = _with_detectable(stage, manifest)
    counts: dict[str, dict[str, Any]] = {}
    with TableWriter.open(output, VERDICT_SCHEMA) as writer:
        for batch in iterate_batches(measures, rows=BATCH_ROWS):
            table = pa.Table.from_batches([batch])
            broken, disagreeing = failures(table, judging)
            writer.write(verdicts(table, broken))
            _count(counts, table["language"], broken, disagreeing)
    return writer.manifest(
        kind="verdicts",
        inputs={"measures": manifest["file"]["digest"]},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={"languages": {language: _plain(entry) for language, entry in sorted(counts.items())}},
    )


def _count(counts: dict[str, dict[str, Any]], languages: pa.ChunkedArray, broken: Bools, disagreeing: Bools) -> None:
    """Add a batch to the counts of its languages."""
    encoded = languages.combine_chunks().dictionary_encode()
    # Number of the first failing rule. Documents that fail no rule get the number after the last rule.
    first = np.where(broken.any(axis=0), broken.argmax(axis=0), len(RULES))
    for code, language in enumerate(encoded.dictionary.to_pylist()):
        mine = np.asarray(encoded.indices) == code
        entry = counts.setdefault(
            language, {"documents": 0, "removed": Counter(), "failing": Counter(), "trusted_disagreements": 0}
        )
        entry["documents"] += int(mine.sum())
        entry["removed"].update(dict(zip(RULES, np.bincount(first[mine], minlength=len(RULES)).tolist(), strict=False)))
        entry["failing"].update(dict(zip(RULES, broken[:, mine].sum(axis=1).tolist(), strict=True)))
        entry["trusted_disagreements"] += int(disagreeing[mine].sum())


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry with rules in the order of `RULES`, without the rules that no document fails."""
    rules = ("removed", "failing")
    return entry | {name: {rule: entry[name][rule] for rule in RULES if entry[name][rule]} for name in rules}
