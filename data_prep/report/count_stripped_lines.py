"""Sum the counts of removed repeated lines, from the manifests of the shards that no longer have these lines."""

from __future__ import annotations

from collections import Counter

from data_prep.corpus.numbered_documents import CorpusTables
from data_prep.formats.shard import read_manifest

COUNTED = ("documents", "documents_changed", "lines_removed", "line_bytes_removed")


def repeated_lines(tables: CorpusTables, parts: list[str]) -> dict[str, dict[str, int]] | None:
    """Return the counts `COUNTED` per language, or None if the run does not remove repeated lines."""
    languages: dict[str, Counter[str]] = {}
    for part in parts:
        path = tables.text_path(part)
        if path != tables.path("stripped", part):
            return None
        for language, counts in read_manifest(path)["counts"]["languages"].items():
            languages.setdefault(language, Counter()).update({name: counts[name] for name in COUNTED})
    return {code: {name: count[name] for name in COUNTED} for code, count in sorted(languages.items())}
