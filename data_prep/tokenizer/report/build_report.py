"""Build the report: figures per language and facts about the vocabulary.

The figures are also computed for the reference tokenizers, and for one monolingual tokenizer per language, which is
trained on that language alone. The uses of tokens come from the pre-token counts if the tokenizer's pre-tokenizer made
these counts. Otherwise the uses come from the sampled documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bloomery.base.digest import digest_file
from bloomery.base.progress import say, track
from bloomery.config.tokenizer_report import TokenizerReportConfig
from data_prep.tokenizer.report.fertility import reference_language, text_figures, token_figures
from data_prep.tokenizer.report.findings import findings
from data_prep.tokenizer.report.gate import verdict
from data_prep.tokenizer.report.monolingual import train_monolingual
from data_prep.tokenizer.report.parallel_text import Rows, parities
from data_prep.tokenizer.report.report_inputs import ReportInputs
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer, Usage
from data_prep.tokenizer.report.usage import covering, usage_of_counts, used_in_one


def tokenizer_report(
    path: Path, subject: ReportedTokenizer, material: ReportInputs, config: TokenizerReportConfig
) -> dict[str, Any]:
    """Return the report on `subject`, the tokenizer in `path` (a tokenizer.json), as JSON values."""
    sampled = {code: subject.usage(texts) for code, texts in sorted(material.texts.items())}
    sampled = {code: usage for code, usage in sampled.items() if usage.any()}
    texts = {code: text_figures(code, material.texts[code]) for code in sampled}
    languages = {code: texts[code] | token_figures(subject, sampled[code], texts[code]) for code in sampled}
    reference = reference_language(languages)
    references = _references(material, texts, reference)
    own = _monolingual(subject, material, texts, config)
    parity, by = _parity(subject, material.rows, languages, texts, reference)
    for code, entry in languages.items():
        entry["references"] = {name: figures[code] for name, figures in references.items()}
        entry["monolingual"] = own.get(code)
        entry["over_monolingual"] = _over(entry, [own[code]] if code in own else [])
        entry["over_reference"] = _over(entry, list(entry["references"].values()))
        entry |= parity.get(code, {"parity": None, "parity_rows": 0})
    usages = usage_of_counts(subject, material.counts) if material.counts is not None else sampled
    for code, alone in zip(usages, used_in_one(list(usages.values())), strict=True):
        if code in languages:
            languages[code]["usage"] = {
                "tokens_used": int((usages[code] > 0).sum()),
                "only_here": alone,
                "covering": covering(usages[code]),
            }
    report = {
        "tokenizer": digest_file(path),
        "vocabulary": subject.size,
        "reference": reference,
        "parity_by": by,
        "languages": languages,
        "references": {
            name: {"vocabulary": one.size, "commit": commit} for name, (one, commit) in material.references.items()
        },
        "monolingual_vocabulary": config.monolingual_vocabulary,
        "usage_from": "sample" if material.counts is None else "counts",
        "vocabulary_facts": _facts(subject, usages),
    }
    return report | {"gate": verdict(report, config.gate)}


def _facts(subject: ReportedTokenizer, usages: dict[str, Usage]) -> dict[str, Any]:
    none = np.zeros(subject.size, np.int64)
    usage, spread = none.copy(), none.copy()
    for one in usages.values():
        usage += one
        spread += one > 0
    return findings(subject, usage, spread)


def _references(
    material: ReportInputs, texts: dict[str, dict[str, Any]], reference: str | None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the figures of each reference tokenizer, per language."""
    result: dict[str, dict[str, dict[str, Any]]] = {}
    others = material.references
    if not others:
        return result
    for name, (other, _) in track(others.items(), "encode with references", len(others), "tokenizers"):
        usages = {code: other.usage(material.texts[code]) for code in texts}
        figures = {code: token_figures(other, usages[code], texts[code]) for code in texts}
        parity, _ = _parity(other, material.rows, figures, texts, reference)
        result[name] = {code: figures[code] | parity.get(code, {"parity": None, "parity_rows": 0}) for code in texts}
    return result


def _monolingual(
    subject: ReportedTokenizer, material: ReportInputs, texts: dict[str, dict[str, Any]], config: TokenizerReportConfig
) -> dict[str, dict[str, Any]]:
    """Train a monolingual tokenizer for each language that has counts, and return its figures per language."""
    result: dict[str, dict[str, Any]] = {}
    asked = config.monolingual_vocabulary
    if asked is None or material.counts is None:
        return result
    by_language = material.counts.by_language()
    for code in track(texts, "train monolingual tokenizers", len(texts), "languages"):
        pieces = by_language.pop(code, None)
        if pieces is not None and pieces.num_rows:
            own = train_monolingual(subject, pieces, asked)
            figures = token_figures(own, own.usage(material.texts[code]), texts[code])
            result[code] = figures | {"vocabulary": own.size, "pieces": pieces.num_rows}
    return result


def _over(entry: dict[str, Any], others: list[dict[str, Any]]) -> float | None:
    """Compare the tokens of `entry` with those of the entry in `others` that has the fewest tokens.

    Return the excess of `entry` as a share: 0.1 means 10 % more tokens. Return None if `others` is empty.
    """
    if not others:
        return None
    return round(int(entry["tokens"]) / min(int(other["tokens"]) for other in others) - 1, 4)


def _parity(
    subject: ReportedTokenizer,
    rows: Rows | None,
    figures: dict[str, dict[str, Any]],
    texts: dict[str, dict[str, Any]],
    reference: str | None,
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the parity per language, and what it compares: `content` (aligned text) or `bytes`."""
    if reference is None:
        return {}, "bytes"
    if rows is not None:
        found = parities(subject, rows, reference)
        if found:
            return found, "content"
        say(
            f"warning: the aligned text has no rows in the reference language {reference}, so parity compares the "
            "tokens of texts with equal numbers of bytes"
        )
    other = figures[reference]["tokens"] / texts[reference]["bytes"]
    by_bytes = {code: round(figures[code]["tokens"] / texts[code]["bytes"] / other, 4) for code in figures}
    return {code: {"parity": ratio, "parity_rows": 0} for code, ratio in by_bytes.items()}, "bytes"
