"""Test that every change of a version is described."""

from __future__ import annotations

from bloomery.checkpoint.software_versions import changed_versions


def test_a_different_a_new_and_a_missing_version_are_changes() -> None:
    before = {"torch": "2.12", "deepspeed": "0.19", "commit": "a" * 40}
    after = {"torch": "2.13", "deepspeed": "0.19", "bloomery": "0.2"}
    assert changed_versions(before, after) == [
        "bloomery not recorded -> 0.2",
        f"commit {'a' * 40} -> not recorded",
        "torch 2.12 -> 2.13",
    ]
    assert changed_versions(after, after) == []
