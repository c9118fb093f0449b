"""Test that lines are removed if many documents of a source share them. All other bytes and code must not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from repeated_lines import MENU, NOTICE, Row, counts, run, web

from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from data_prep.corpus.explain import explain

pytestmark = pytest.mark.slow


def in_python(shards: dict[str, list[Row]], least: int) -> dict[str, tuple[str, str]]:
    """Remove the repeated lines in plain Python, with sets of whole documents."""
    documents: dict[tuple[str, str, str], set[str]] = {}
    for part, rows in shards.items():
        for _, language, text in rows:
            for line in {line.strip() for line in text.split("\n")}:
                documents.setdefault((part.split("/")[0], language, line), set()).add(text)
    found = {}
    for part, rows in shards.items():
        for key, language, text in rows:
            left = [
                line
                for line in text.split("\n")
                if len(line.strip()) < 15 or len(documents[part.split("/")[0], language, line.strip()]) < least
            ]
            found[key] = (language, "\n".join(left))
    return found


def test_only_lines_that_repeat_across_shards_are_removed(tmp_path: Path) -> None:
    shards = web(60, 13)
    found = run(tmp_path, shards, least=5)
    assert found == in_python(shards, 5)
    assert not any(NOTICE in text or MENU in text for language, text in found.values() if language == "en")
    assert sum("a sentence of few words" in text for _, text in found.values()) > 10
    assert sum("a sentence of few words" in text for _, text in found.values()) < 120
    total = [counts(tmp_path, part) for part in shards]
    before = sum(len(text.encode()) for rows in shards.values() for _, _, text in rows)
    assert sum(one["bytes"] + one["line_bytes_removed"] for one in total) == before
    lines = sum(text.count("\n") for rows in shards.values() for _, _, text in rows)
    assert sum(one["lines_removed"] for one in total) == lines - sum(text.count("\n") for _, text in found.values())
    assert sum(one["documents_changed"] for one in total) == sum(
        found[key] != (language, text) for rows in shards.values() for key, language, text in rows
    )
    for one in total:
        assert {name: sum(entry[name] for entry in one["languages"].values()) for name in one["languages"]["en"]} == {
            name: value for name, value in one.items() if name != "languages"
        }


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / name, web(20, 7))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) > 10
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


def test_long_lines_are_removed_and_blank_or_short_lines_stay(tmp_path: Path) -> None:
    long = "ab " * 400_000 + "."
    rows = [(f"d{n}", "en", f"{long}\n \t \n\n{'short line':<14}\nown {n}\n") for n in range(4)]
    found = run(tmp_path, {"a/00000": rows, "a/00001": []})
    assert [found[f"d{n}"][1] for n in range(4)] == [f" \t \n\n{'short line':<14}\nown {n}\n" for n in range(4)]
    assert counts(tmp_path, "a/00001")["documents"] == 0


def test_later_steps_use_the_text_without_repeated_lines(corpus_run: Any, tmp_path: Path) -> None:
    sentence = "The {} mill of the {} valley grinds the grain of farm number {} for the bread of the coming week. "
    kinds = ("water", "wind", "steam", "old", "new", "white")
    texts = [sentence.format(kind, name, n) * 3 for n, kind in enumerate(kinds) for name in ("upper", "lower")]
    rows = [{"id": str(n), "text": f"{NOTICE}\n{text}\n{MENU}", "lang": "en"} for n, text in enumerate(texts)]
    rows += [{"id": f"only{n}", "text": f"{NOTICE}\n\n{MENU}" + " " * n, "lang": "en"} for n in range(2)]
    rows += [{"id": f"code{n}", "text": f"# {MENU}\n\tx = {n}\n", "lang": "code"} for n in range(4)]
    for number in range(3):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows[number::3]))
    source: dict[str, Any] = {
        "name": "web",
        "kind": "jsonl",
        "paths": [f"{tmp_path}/*.jsonl"],
        "language_field": "lang",
    }
    source |= {"id_field": "id", "min_line_documents": 8}
    done = corpus_run(
        [source],
        ingest={"shard_bytes": "1KiB", "max_document_bytes": "1KiB"},
        judge={"preset": "none"},
        lines={"enabled": True, "min_documents": 1000, "partitions": 2},
        dedup={"near": {"enabled": False}},
    )
    assert len(done.parts) > 2
    with pytest.raises(InputError, match="there is no partition 2 of the line hashes"):
        done.verb(
            "repeated-lines", "--config", done.section("repeated_lines.json"), "--corpus", done.corpus,
            "--parts", done.section("parts.json"), "--partition", 2, "--output", tmp_path / "out.parquet",
        )  # fmt: skip
    done.all()
    assert done.table("stripped")["id"].equals(done.table("raw")["id"])
    key = {row["id"]: json.loads(row["meta"])["key"] for row in done.rows("raw")}
    clean = {key[row["id"]]: row["text"] for row in done.rows("clean")}
    assert {clean[str(n)] for n in range(len(texts))} == set(texts)
    assert {clean[f"code{n}"] for n in range(4)} == {f"# {MENU}\n\tx = {n}\n" for n in range(4)}
    assert {(key[row["id"]], row["rule"]) for row in done.rows("removed")} == {("only0", "empty"), ("only1", "empty")}
    measured = {key[row["id"]]: row for row in done.rows("measures")}
    assert all(measured[str(n)]["bytes"] == len(text) for n, text in enumerate(texts))
    [told] = explain(RunPaths(done.folder), next(one for one, name in key.items() if name == "0"))
    assert (told["outcome"], told["repeated_lines"], told["redacted"]) == ("kept", [NOTICE, MENU], False)
    report, _ = done.report()
    assert report["totals"]["removed"] == {"empty": 2}
    assert report["totals"]["bytes_in"] == sum(len(row["text"].encode()) for row in done.rows("raw"))
    assert report["repeated_lines"]["en"]["lines_removed"] == 2 * (len(texts) + 2)
    assert report["repeated_lines"]["code"]["lines_removed"] == 0
