"""Test which duplicates are removed and why, and that shards, partitions and input order do not matter."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bloomery.base.digest import document_id, occurrence_id
from bloomery.base.errors import InputError
from bloomery.config.stages import DedupStage, read_stage
from bloomery.contracts.part_names import refuse_unfinished
from bloomery.contracts.paths import RunPaths
from data_prep.corpus.dedup.candidates import find_candidates
from data_prep.corpus.dedup.connect import connect
from data_prep.corpus.dedup.resolve import resolve
from data_prep.corpus.explain import explain
from data_prep.corpus.numbered_documents import NumberedDocuments
from data_prep.formats.shard import read_manifest, read_table

pytestmark = pytest.mark.slow

OPEN: dict[str, Any] = {"judge": {"preset": "none"}}


def words(seed: int, count: int = 200) -> list[str]:
    return [f"w{number}" for number in random.Random(seed).sample(range(10**6), count)]


def write(path: Path, rows: Sequence[tuple[str, str, str]]) -> str:
    path.write_text("".join(json.dumps({"id": i, "language": code, "text": t}) + "\n" for i, code, t in rows))
    return str(path)


def source(*paths: str, name: str = "s", **other: Any) -> dict[str, Any]:
    # The generated words belong to no language, so the sources' labels must be trusted.
    fields = {"language_field": "language", "id_field": "id", "trust_language": True}
    return {"name": name, "kind": "jsonl", "paths": list(paths), **fields, **other}


def run(corpus_run: Any, *sources: dict[str, Any], **corpus: Any) -> Any:
    made = corpus_run(list(sources), **OPEN | corpus)
    made.all()
    return made


def removed(made: Any, keys: Sequence[str], name: str = "s") -> dict[str, tuple[str, str]]:
    """Map the key of every removed document to (key of the kept document, kind)."""
    known = {document_id(name, key): key for key in keys}
    return {known[row["id"]]: (known[row["duplicate_of"]], row["kind"]) for row in made.duplicates()}


def test_a_document_unlike_the_kept_one_is_not_removed(corpus_run: Any, tmp_path: Path) -> None:
    """a is similar to b, and b to c, but a is not similar to c. So c is kept although it is in the cluster of a."""
    base = words(1, 240)
    texts = {"a": " ".join(base[:220]), "b": " ".join(base[15:230]), "c": " ".join(base[40:240])}
    path = write(tmp_path / "x.jsonl", [(key, "en", text) for key, text in texts.items()])
    near = {"min_jaccard": 0.82, "bands": 60, "rows": 4}
    made = run(corpus_run, source(path), dedup={"near": near})
    assert removed(made, "abc") == {"b": ("a", "near")}
    survivors = [row for path in made.partitioned("survivors") for row in read_table(path).to_pylist()]
    best, other = document_id("s", "a"), document_id("s", "c")
    assert sorted((row["part"], row["id"], row["cluster"]) for row in survivors) == sorted(
        [("s/00000", best, best), ("s/00000", other, best)]
    ), "the kept documents of a cluster are recorded, so that training and validation do not share a cluster"
    [row] = made.duplicates()
    shared, union = 201, 216 + 211 - 201
    assert row["similarity"] == pytest.approx(shared / union)
    assert row["cluster_size"] == 2


def test_exact_copies_match_across_languages_and_near_copies_do_not(corpus_run: Any, tmp_path: Path) -> None:
    text = " ".join(words(2))
    rows = [
        ("a", "en", text),
        ("b", "fr", text.replace(" ", "\n ")),
        ("c", "fr", text + " more"),
        ("d", "fr", text + " end"),
    ]
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", rows)))
    found = removed(made, "abcd")
    assert {frozenset([key, kept]) for key, (kept, kind) in found.items() if kind == "exact"} == {frozenset("ab")}
    # c and d are near copies of b. But b may itself have been removed as an exact copy of a, which is English.
    assert len(found) == 2 or "b" not in found
    assert all(kind == "exact" or {key, kept} <= set("bcd") for key, (kept, kind) in found.items())


def test_exact_copies_are_no_candidates_for_near_duplicates(corpus_run: Any, tmp_path: Path) -> None:
    text = " ".join(words(20))
    rows = [(f"copy{number}", "en", text) for number in range(5)] + [("near", "en", text + " and one more")]
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", rows)))
    counts = [read_manifest(path)["counts"] for path in made.partitioned("candidates")]
    assert sum(each["exact"] for each in counts) == 4, "one pair of the best copy with each of the 4 others"
    assert sum(each["near"] for each in counts) == 5, "one pair of the longer document with each of the 5 copies"


def test_priority_then_length_then_id_decide_which_document_is_kept(corpus_run: Any, tmp_path: Path) -> None:
    base = " ".join(words(3))
    low = write(tmp_path / "low.jsonl", [("long", "en", base + " and a longer end"), ("long2", "en", base + " x y")])
    high = write(tmp_path / "high.jsonl", [("short", "en", base)])
    made = run(corpus_run, source(low, name="low"), source(high, name="high", priority=5))
    kept = document_id("high", "short")
    assert {(row["id"], row["duplicate_of"]) for row in made.duplicates()} == {
        (document_id("low", key), kept) for key in ("long", "long2")
    }
    same = run(corpus_run, source(low, name="low"), source(high, name="high"))
    assert {row["duplicate_of"] for row in same.duplicates()} == {document_id("low", "long")}
    assert {row["cluster_size"] for row in same.duplicates()} == {3}


def test_documents_with_the_same_id_get_occurrence_numbers_in_any_part(corpus_run: Any, tmp_path: Path) -> None:
    """The documents with the same key are in one part or in several.

    The second of them also occurs in another source.
    """
    rows = [("k", "en", " ".join(words(seed))) for seed in (4, 5, 6)]
    path = write(tmp_path / "x.jsonl", [*rows, ("other", "en", " ".join(words(7)))])
    copy = write(tmp_path / "copy.jsonl", [("copy", "en", rows[1][2])])
    first = document_id("s", "k")
    expected = {first, occurrence_id(first, 2), occurrence_id(first, 3), document_id("s", "other")}
    found = []
    for limits in (
        {"shard_bytes": "1MiB", "max_document_bytes": "1MiB"},
        {"shard_bytes": 2048, "max_document_bytes": 2048},
    ):
        made = run(
            corpus_run, source(path), source(copy, name="best", priority=1), ingest=limits, dedup={"partitions": 2}
        )
        assert (len(made.parts) > 2) == (limits["shard_bytes"] == 2048)
        assert made.report()[0]["repeated_ids"] == 2
        stay = {row["id"]: row["text"] for row in made.rows("clean") if row["source"] == "s"}
        [gone] = made.rows("removed")
        assert {*stay, gone["id"]} == expected
        assert (gone["duplicate_of"], made.duplicates()[0]["id"]) == (document_id("best", "copy"), gone["id"])
        [story] = explain(RunPaths(made.folder), gone["id"])
        assert story["outcome"] == "removed: exact_duplicate"
        assert story["excerpt"][:20] == rows[1][2][:20]
        found.append((stay, gone))
    assert found[0] == found[1]


def corpus_of(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Make documents of which many are exact or near copies of earlier ones."""
    generator = random.Random(seed)
    rows: list[tuple[str, str, str]] = []
    for number in range(count):
        if rows and generator.random() < 0.6:
            text = generator.choice(rows)[2].split()
            for _ in range(generator.choice([0, 0, 1, 2, 5, 12])):
                text[generator.randrange(len(text))] = f"n{generator.randrange(10**6)}"
        else:
            text = words(generator.randrange(10**9), 100)
        rows.append((f"k{number}", generator.choice(["en", "fr"]), " ".join(text)))
    return rows


def rows_of(made: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Return the sorted rows of duplicates, clean documents and removed documents, without their shards."""
    columns = ("id", "duplicate_of", "kind", "similarity", "cluster_size")
    clean, removed = (sorted(tuple(map(str, row.values())) for row in made.rows(kind)) for kind in ("clean", "removed"))
    return {
        "duplicates": sorted(tuple(row[name] for name in columns) for row in made.duplicates()),
        "clean": clean,
        "removed": removed,
    }


@pytest.mark.slow
def test_shard_sizes_partitions_and_the_order_of_the_input_change_nothing(corpus_run: Any, tmp_path: Path) -> None:
    rows = corpus_of(6, 120)
    expected = rows_of(run(corpus_run, source(write(tmp_path / "all.jsonl", rows))))
    assert all(expected.values())
    mixed = random.Random(3).sample(rows, len(rows))
    assert rows_of(run(corpus_run, source(write(tmp_path / "mixed.jsonl", mixed)))) == expected
    files = [write(tmp_path / f"p{n}.jsonl", rows[n::4]) for n in range(4)]
    limits = {"shard_bytes": "12KiB", "max_document_bytes": "12KiB"}
    for reverse in (False, True):
        many = corpus_run([source(*files)], reverse=reverse, ingest=limits, dedup={"partitions": 5}, **OPEN)
        many.all()
        assert len(many.parts) > 4, "the files must be split into parts"
        assert rows_of(many) == expected


def test_several_passes_in_little_memory_find_the_same_duplicates(corpus_run: Any, tmp_path: Path) -> None:
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", corpus_of(9, 150))), dedup={"partitions": 2})
    stage = read_stage(made.section("dedup.json"), DedupStage)
    small = stage.model_copy(update={"dedup": stage.dedup.model_copy(update={"memory_bytes": 10_000})})
    catalogue = NumberedDocuments(made.corpus, made.section("parts.json"))
    folder = tmp_path / "duplicates"
    candidates = [folder / f"candidates-{number}.parquet" for number in range(2)]
    for number, path in enumerate(candidates):
        keys = made.corpus / "keys"
        found = find_candidates(small, catalogue, number, keys, path, folder / f"repeated-{number}.parquet")["counts"]
        assert found["passes"] > 3
    connect(small, catalogue, candidates, folder / "clusters.parquet", folder / "involved.parquet")
    involved = [read_table(where / "involved.parquet").sort_by("row") for where in (folder, made.corpus / "duplicates")]
    assert involved[0] == involved[1]
    for number, (path, kin) in enumerate(zip(made.partitioned("resolved"), made.partitioned("survivors"), strict=True)):
        output, together = folder / path.name, folder / kin.name
        members = made.corpus / "members"
        counts = resolve(small, catalogue, number, folder / "clusters.parquet", members, output, together)["counts"]
        assert counts["passes"] > 1
        assert read_table(output) == read_table(path)
        assert read_table(together) == read_table(kin)


def test_without_verification_only_the_best_document_of_a_cluster_is_kept(corpus_run: Any, tmp_path: Path) -> None:
    """a is similar to b, and b to c. So c is removed although it is not similar to a."""
    base = words(1, 240)
    texts = {"a": base[:220], "b": base[15:230], "c": base[40:240], "copy": base[15:230]}
    path = write(tmp_path / "x.jsonl", [(key, "en", " ".join(text)) for key, text in texts.items()])
    made = run(corpus_run, source(path), dedup={"near": {"verify": False, "bands": 60, "rows": 4}})
    found = removed(made, texts)
    assert {key: kept for key, (kept, _) in found.items()} == {"b": "a", "c": "a", "copy": "a"}
    assert {row["similarity"] for row in made.duplicates()} == {None}
    assert {row["cluster_size"] for row in made.duplicates()} == {4}


def test_duplicates_of_an_earlier_run_are_removed(corpus_run: Any, tmp_path: Path) -> None:
    base = [" ".join(words(seed, 300)) for seed in range(20, 26)]
    twice = [("twice", "en", "another text " + base[4]), ("twice", "en", base[5])]
    old = run(corpus_run, source(write(tmp_path / "old.jsonl", [("o1", "en", base[0]), ("o2", "en", base[1]), *twice])))
    rows = [
        ("copy", "en", base[0]),
        ("near", "en", base[1] + " and a bit more, which would make it the better one"),
        ("new", "en", base[2]),
        ("newer", "en", base[2] + " end"),
        ("again", "en", base[5] + " "),
    ]
    made = run(corpus_run, source(write(tmp_path / "new.jsonl", rows)), dedup={"against": [str(old.folder)]})
    # The second document with the same key has its own id.
    known = {document_id("s", key): key for key in ("copy", "near", "new", "newer", "again", "o1", "o2", "twice")}
    known[occurrence_id(document_id("s", "twice"), 2)] = "twice"
    assert {known[row["id"]]: (known[row["duplicate_of"]], row["kind"]) for row in made.duplicates()} == {
        "copy": ("o1", "exact"),
        "near": ("o2", "near"),
        "new": ("newer", "near"),
        "again": ("twice", "exact"),
    }
    assert {row["id"] for row in made.rows("clean")} == {document_id("s", "newer")}
    # The results of the earlier run are used as they were written, even if its settings have changed since.
    planned = json.loads(old.section("dedup.json").read_text())
    planned["dedup"]["partitions"] = 7
    old.section("dedup.json").write_text(json.dumps(planned))
    again = run(corpus_run, source(str(tmp_path / "new.jsonl")), dedup={"against": [str(old.folder)]})
    assert again.rows("removed") == made.rows("removed")
    [told] = explain(RunPaths(old.folder), occurrence_id(document_id("s", "twice"), 2))
    assert told["outcome"] == "kept"
    other = corpus_run(
        [source(write(tmp_path / "n.jsonl", rows))], dedup={"against": [str(old.folder)], "near": {"rows": 7}}
    )
    other.judge()
    with pytest.raises(InputError, match="other MinHash parameters"):
        other.deduplicate()


def test_an_earlier_run_must_be_finished_and_not_the_run_itself(corpus_run: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [("a", "en", " ".join(words(1))), ("a", "en", " ".join(words(2)))])
    old = run(corpus_run, source(path))
    refuse_unfinished([str(old.folder)], tmp_path / "new")
    with pytest.raises(InputError, match="this run itself"):
        refuse_unfinished([str(old.folder)], old.folder)
    for missing in ("duplicates/clusters.json", "clean/s/00000.parquet", "measures/s/00000.json"):
        (old.corpus / missing).rename(tmp_path / "aside")
        with pytest.raises(InputError, match=f"the corpus of this earlier run has no {missing}"):
            refuse_unfinished([str(old.folder)], tmp_path / "new")
        (tmp_path / "aside").rename(old.corpus / missing)
    (old.corpus / "duplicates/repeated-0.parquet").unlink()
    with pytest.raises(InputError, match=r"repeated-0.parquet: no such file"):
        run(corpus_run, source(path), dedup={"against": [str(old.folder)]})
    old.section("parts.json").write_text("{}")
    with pytest.raises(InputError, match="not the folder of a run"):
        refuse_unfinished([str(old.folder)], tmp_path / "new")


def test_candidates_follow_the_curve_of_locality_sensitive_hashing(corpus_run: Any, tmp_path: Path) -> None:
    """A pair of similarity s shares a band with probability 1 - (1 - s^rows)^bands (Leskovec et al., chapter 3)."""
    pairs, shingles = 60, 300
    rows, similarity = [], {}
    for level in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        for number in range(pairs):
            text = words(int(1000 * level) + 7919 * number, shingles + 4)
            # If the last n words change, the union has `shingles` + n shingles, of which `shingles` - n are shared.
            changed = round(shingles * (1 - level) / (1 + level))
            other = text[: len(text) - changed] + words(31 * number + 5, changed)
            for side, one in (("a", text), ("b", other)):
                rows.append((f"{level}-{number}-{side}", "en", " ".join(one)))
            similarity[level] = (shingles - changed) / (shingles + changed)
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", rows)), dedup={"near": {"min_jaccard": 0.0}})
    found = removed(made, [key for key, _, _ in rows])
    assert all(key.rsplit("-", 1)[0] == kept.rsplit("-", 1)[0] for key, (kept, _) in found.items()), (
        "unrelated documents must not be paired"
    )
    for level, value in similarity.items():
        hits = sum(key.startswith(f"{level}-") for key in found)
        expected = 1 - (1 - value**8) ** 14
        spread = math.sqrt(pairs * expected * (1 - expected))
        assert abs(hits - pairs * expected) <= 4 * spread + 1, level
    strict = run(corpus_run, source(str(tmp_path / "x.jsonl")), dedup={"near": {"min_jaccard": 0.8}})
    kept = {row["similarity"] for row in strict.duplicates()}
    assert min(kept) >= 0.8
    assert (
        removed(strict, [key for key, _, _ in rows]).items()
        == {key: value for key, value in found.items() if similarity[float(key.split("-")[0])] >= 0.8}.items()
    )


def test_every_removed_document_is_as_similar_to_a_kept_one_as_configured(corpus_run: Any, tmp_path: Path) -> None:
    """Compare with plain Python, which holds the shingles in sets and compares every pair."""
    rows = corpus_of(7, 100)
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", rows)), dedup={"near": {"bands": 40, "rows": 4}})
    known = {document_id("s", key): (language, text.split()) for key, language, text in rows}
    gone = {row["id"] for row in made.duplicates()}

    def jaccard(one: list[str], two: list[str]) -> float:
        a, b = ({tuple(text[i : i + 5]) for i in range(len(text) - 4)} for text in (one, two))
        return len(a & b) / len(a | b)

    for row in made.duplicates():
        (_, text), (kept_language, kept) = known[row["id"]], known[row["duplicate_of"]]
        assert row["duplicate_of"] not in gone
        assert row["similarity"] == pytest.approx(jaccard(text, kept))
        assert row["similarity"] == 1 if row["kind"] == "exact" else row["similarity"] >= 0.7
        # A near duplicate has the language of its kept document, unless it is an exact copy of another near duplicate.
        same_text = {other for other, words in known.values() if words == text}
        assert row["kind"] == "exact" or kept_language in same_text
    stay = [value for key, value in known.items() if key not in gone]
    left = [
        jaccard(one, two)
        for number, (language, one) in enumerate(stay)
        for other, two in stay[:number]
        if language == other
    ]
    assert max(left) < 0.7, "40 bands of 4 rows miss a pair of similarity 0.7 about once in 59,000"


@pytest.mark.parametrize(("dedup", "kinds"), [
    ({"exact": False}, {"near"}), ({"near": {"enabled": False}}, {"exact"}),
    ({"exact": False, "near": {"enabled": False}}, set()),
])  # fmt: skip
def test_each_kind_of_duplicate_can_be_switched_off(
    corpus_run: Any, tmp_path: Path, dedup: Any, kinds: set[str]
) -> None:
    made = run(corpus_run, source(write(tmp_path / "x.jsonl", corpus_of(8, 40))), dedup=dedup)
    assert {row["kind"] for row in made.duplicates()} == kinds
