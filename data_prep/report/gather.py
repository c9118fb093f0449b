"""Gather the numbers of the corpus report from the manifests of the shards, without reading texts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.config.languages import language_profiles, profile_of
from bloomery.config.stages import JudgeStage
from data_prep.corpus.numbered_documents import CorpusTables
from data_prep.formats.shard import read_manifest
from data_prep.report.count_stripped_lines import repeated_lines
from data_prep.report.read_duplicates import duplicate_counts
from data_prep.report.rules import ALL_RULES, STAGES, stage_of


class _Funnel:
    """Documents and bytes of one language, one source, or the whole corpus: input, removed per rule, and kept."""

    def __init__(self) -> None:
        self.ingested: Counter[str] = Counter(documents=0, bytes=0)
        self.kept: Counter[str] = Counter(documents=0, bytes=0)
        self.removed: dict[str, Counter[str]] = {}
        self.redactions: Counter[str] = Counter()
        self.redacted_documents = 0
        self.trusted_disagreements = 0

    def add(self, ingested: dict[str, Any], cleaned: dict[str, Any], judged: dict[str, Any]) -> None:
        """Add one language of one part, from the manifests of ingest, clean and judge."""
        self.ingested.update(ingested)
        self.kept.update(cleaned["out"])
        for rule, size in cleaned["removed"].items():
            self.removed.setdefault(rule, Counter()).update(size)
        self.redactions.update(cleaned["redacted"])
        self.redacted_documents += cleaned["redacted_documents"]
        self.trusted_disagreements += judged["trusted_disagreements"]

    def plain(self) -> dict[str, Any]:
        """Return the numbers as JSON values, with rules in the order of the stages."""
        rules = [rule for rule in ALL_RULES if rule in self.removed]
        stages: Counter[str] = Counter()
        for rule in rules:
            stages[stage_of(rule)] += self.removed[rule]["documents"]
        return {
            "documents_in": self.ingested["documents"],
            "bytes_in": self.ingested["bytes"],
            "documents_out": self.kept["documents"],
            "bytes_out": self.kept["bytes"],
            "removed": {rule: self.removed[rule]["documents"] for rule in rules},
            "removed_bytes": {rule: self.removed[rule]["bytes"] for rule in rules},
            "removed_by_stage": {stage: stages[stage] for stage in STAGES},
            "redactions": dict(sorted(self.redactions.items())),
            "redacted_documents": self.redacted_documents,
            "trusted_disagreements": self.trusted_disagreements,
        }


def gather(corpus: Path, parts: list[str], stage: JudgeStage) -> dict[str, Any]:
    """Return the report without examples: totals, languages, sources, rules, duplicates and mixture.

    For the whole corpus, each language and each source, the input documents are the kept plus the removed documents.

    Raises:
        InputError: if a manifest is missing.
    """
    total = _Funnel()
    languages: dict[str, _Funnel] = {}
    sources: dict[str, _Funnel] = {}
    bad: dict[str, Counter[str]] = {}
    failing: Counter[str] = Counter()
    for part in parts:
        source = part.split("/")[0]
        judged = read_manifest(corpus / "verdicts" / f"{part}.parquet")["counts"]["languages"]
        cleaned = read_manifest(corpus / "clean" / f"{part}.parquet")["counts"]["languages"]
        ingested = read_manifest(corpus / "raw" / f"{part}.parquet")["counts"]
        bad.setdefault(source, Counter()).update(ingested["bad_reasons"])
        sources.setdefault(source, _Funnel())
        for language, entry in cleaned.items():
            failing.update(judged[language]["failing"])
            for funnel in (total, sources[source], languages.setdefault(language, _Funnel())):
                funnel.add(ingested["languages"][language], entry, judged[language])
    mixture = corpus / "mixture.json"
    duplicates = duplicate_counts(corpus)
    known = language_profiles()
    reasons: Counter[str] = sum(bad.values(), Counter())
    return {
        "totals": total.plain() | {"bad_rows": reasons.total()},
        "languages": {
            code: {"name": profile_of(code).name if code in known else code} | languages[code].plain()
            for code in sorted(languages)
        },
        "sources": {
            name: funnel.plain() | {"bad_rows": bad[name].total(), "bad_reasons": dict(sorted(bad[name].items()))}
            for name, funnel in sources.items()
        },
        "rules": {
            rule: {
                "documents": total.removed[rule]["documents"],
                "bytes": total.removed[rule]["bytes"],
                # `documents` counts a document only for its first failing rule. `failing_documents` counts it for all
                # failing rules.
                "failing_documents": failing.get(rule, total.removed[rule]["documents"]),
                "limits": _limits(stage, rule, sorted(languages)),
            }
            for rule in ALL_RULES
            if rule in total.removed
        },
        "bad_rows": {"count": reasons.total(), "reasons": dict(sorted(reasons.items()))},
        "duplicates": {name: duplicates[name] for name in ("exact", "near", "compared")},
        "repeated_ids": duplicates["repeated_ids"],
        "repeated_lines": repeated_lines(CorpusTables(corpus), parts),
        "mixture": read_json(mixture) if mixture.exists() else None,
    }


def _limits(stage: JudgeStage, rule: str, languages: list[str]) -> dict[str, float]:
    """Return the rule's limit for each language that has such a limit. Limits of recipes are only in `what_if`."""
    limits = {
        code: getattr(stage.thresholds.get(code) or stage.thresholds["default"], rule, None) for code in languages
    }
    return {code: limit for code, limit in limits.items() if limit is not None}
