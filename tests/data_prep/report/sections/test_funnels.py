"""Test the funnels, which count the documents that remain."""

from typing import Any


def test_the_funnel_adds_up_for_all_languages_and_sources(report: tuple[dict[str, Any], str]) -> None:
    data = report[0]
    for funnel in (data["totals"], *data["languages"].values(), *data["sources"].values()):
        assert funnel["documents_in"] == funnel["documents_out"] + sum(funnel["removed"].values())
        assert funnel["removed"].keys() == funnel["removed_bytes"].keys()
        assert sum(funnel["removed_by_stage"].values()) == sum(funnel["removed"].values())
    for key in ("documents_in", "bytes_in", "documents_out", "bytes_out"):
        for groups in (data["languages"], data["sources"]):
            assert sum(entry[key] for entry in groups.values()) == data["totals"][key]
    assert data["totals"]["redactions"].keys() == {"email", "ip"}
    assert data["duplicates"]["exact"] == data["rules"]["exact_duplicate"]["documents"]
    assert data["mixture"]["languages"].keys() == {c for c, e in data["languages"].items() if e["documents_out"]}
