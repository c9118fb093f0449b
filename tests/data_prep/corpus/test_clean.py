"""Test the split of the documents of a part into clean and removed ones."""

from __future__ import annotations

from typing import Any

from data_prep.corpus.clean import REMOVED_SCHEMA
from data_prep.formats.shard import read_manifest, read_table


def test_every_document_is_either_clean_or_removed(sample_run: Any) -> None:
    for part in sample_run.parts:
        raw, clean, removed = (read_table(sample_run.path(kind, part)) for kind in ("raw", "clean", "removed"))
        assert removed.schema.equals(REMOVED_SCHEMA)
        assert sorted(raw["id"].to_pylist()) == sorted(clean["id"].to_pylist() + removed["id"].to_pylist())
        assert removed["text"].null_count == removed.num_rows
        rules = read_manifest(sample_run.path("removed", part))["counts"]["rules"]
        assert sum(rules.values()) == removed.num_rows
        assert rules == {rule: removed["rule"].to_pylist().count(rule) for rule in rules}
