"""Test the digests that identify values and documents."""

from __future__ import annotations

from bloomery.base.digest import digest_json, document_id, seed_for


def test_digests_depend_only_on_content() -> None:
    assert digest_json({"a": 1, "b": [1.5, None]}) == digest_json({"b": [1.5, None], "a": 1})
    assert document_id("a", "b") != document_id("ab", "")
    assert len(document_id("a", "b")) == 32
    assert seed_for(1, "h.0.weight") == seed_for(1, "h.0.weight") != seed_for(2, "h.0.weight")
    assert 0 <= seed_for(1, "x") < 1 << 63
