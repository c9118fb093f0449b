"""Test the clusters of duplicates in the report: their sizes, and their kept and removed documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_prep.report import clusters

WORDS = ["river", "stone", "lantern", "orchard", "winter", "copper", "meadow", "harbour", "violin", "thunder", "saddle"]


def story(number: int) -> str:
    """Return a text that is not similar to the texts of other numbers."""
    turned = WORDS[number % len(WORDS) :] + WORDS[: number % len(WORDS)]
    return " ".join(f"The {word} of house {number * 17 + place} was old and the {turned[place - 1]} beside it new."
                    for place, word in enumerate(turned))  # fmt: skip


@pytest.fixture(scope="module")
def found(corpus_run: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Report 14 clusters: one of 5 documents, one of 3, and twelve of 2. The first has two sources and a near copy."""
    folder = tmp_path_factory.mktemp("texts")
    web = [story(0)] * 3 + [story(0) + " And that was all there was."] + [story(1)] * 3
    web += [story(number) for number in range(2, 14) for _ in range(2)] + [story(14)]
    for name, texts in (("web", web), ("books", [story(0)])):
        rows = (json.dumps({"text": text, "language": "en"}) for text in texts)
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    sources = [
        {"name": name, "kind": "jsonl", "paths": [str(folder / f"{name}.jsonl")], "language_field": "language"}
        for name in ("web", "books")
    ]
    sources[1]["priority"] = 1
    run = corpus_run(sources, dedup={"partitions": 3}, judge={"preset": "none"})
    run.all()
    return run.report()[0]


def test_sizes_count_every_cluster_and_every_removed_document(found: dict[str, Any]) -> None:
    told = found["duplicates"]["clusters"]
    assert told["count"] == 14
    assert told["sizes"] == [
        {"from": 2, "to": 3, "clusters": 13, "removed": 14},
        {"from": 4, "to": 7, "clusters": 1, "removed": 4},
    ]
    removed = found["rules"]["exact_duplicate"]["documents"] + found["rules"]["near_duplicate"]["documents"]
    assert removed == sum(row["removed"] for row in told["sizes"])


def test_the_largest_clusters_come_first_with_a_kept_and_a_removed_document(found: dict[str, Any]) -> None:
    largest = found["duplicates"]["clusters"]["largest"]
    assert [one["size"] for one in largest] == [5, 3, *[2] * (clusters.LARGEST - 2)]
    first = largest[0]
    assert (first["exact"], first["near"], first["sources"]) == (3, 1, {"web": 4})
    assert first["kept"]["source"] == "books", "the document of the source with higher priority is kept"
    assert first["removed"]["kind"] == "near", "the least similar member is shown"
    assert first["kept"]["excerpt"] == first["removed"]["excerpt"]
    assert first["kept"]["id"] != first["removed"]["id"]


def test_a_corpus_without_duplicates_has_no_clusters(corpus_run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": story(0), "language": "en"}))
    source = {"name": "a", "kind": "jsonl", "paths": [str(tmp_path / "a.jsonl")], "language_field": "language"}
    run = corpus_run([source], judge={"preset": "none"})
    run.all()
    data, page = run.report()
    assert data["duplicates"]["clusters"] == {"count": 0, "sizes": [], "largest": []}
    assert "No duplicates were found." in page
