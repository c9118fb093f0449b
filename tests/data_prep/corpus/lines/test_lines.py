"""Lines that many documents of a source share go, over all shards; every other byte stays, and code is not touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bloomery.base.errors import InputError
from bloomery.config.stages import LinesStage, RepeatedLinesStage
from bloomery.contracts.paths import RunPaths
from data_prep.corpus.explain import explain
from data_prep.corpus.lines import count_lines, find_repeated_lines, strip_lines
from data_prep.formats.shard import DOCUMENT_SCHEMA, read_manifest, read_table, write_table

NOTICE = "All rights reserved, do not copy."
MENU = "Home | News | Contact | About us"
Row = tuple[str, str, str]


def lines_stage(partitions: int = 1) -> LinesStage:
    return LinesStage(min_characters=15, partitions=partitions, untouched=["code"])


def run(
    corpus: Path,
    shards: dict[str, list[Row]],
    partitions: int = 1,
    least: int | dict[str, int] = 3,
    memory_bytes: int = 1 << 29,
    run_rows: int = count_lines.RUN_ROWS,
) -> dict[str, tuple[str, str]]:
    """Strip shards of (id, language, text) by the three stages; returns (language, text) by id."""
    stage = lines_stage(partitions)
    names = {part.split("/")[0] for part in shards}
    limits = least if isinstance(least, dict) else dict.fromkeys(names, least)
    for part, rows in shards.items():
        columns = [[row[0] for row in rows], [part.split("/")[0]] * len(rows), [row[1] for row in rows]]
        columns += [[row[2] for row in rows], [""] * len(rows)]
        raw = corpus / "raw" / f"{part}.parquet"
        write_table(raw, pa.table(columns, schema=DOCUMENT_SCHEMA), kind="documents", inputs={}, parameters="")
        count_lines.count_lines(stage, raw, find_repeated_lines.lines_path(corpus, part), run_rows)
    parts = corpus / "parts.json"
    parts.write_text(json.dumps(list(shards)))
    gather = RepeatedLinesStage(min_documents=limits, partitions=partitions, memory_bytes=memory_bytes)
    for partition in range(partitions):
        output = find_repeated_lines.repeated_path(corpus, partition)
        find_repeated_lines.find_repeated_lines(gather, corpus, parts, partition, output)
    found: dict[str, tuple[str, str]] = {}
    for part, rows in shards.items():
        output = corpus / "stripped" / f"{part}.parquet"
        strip_lines.strip_lines(stage, corpus / "raw" / f"{part}.parquet", corpus, output)
        table = read_table(output)
        assert table.schema == DOCUMENT_SCHEMA
        assert table["id"].to_pylist() == [row[0] for row in rows]
        found |= {row["id"]: (row["language"], row["text"]) for row in table.to_pylist()}
    return found


def counts(corpus: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = read_manifest(corpus / "stripped" / f"{part}.parquet")["counts"]
    return found


def article(name: str, *lines: str) -> str:
    return "\n".join([f"What {name} is about in its first line", *lines, f"  and what {name} says last"])


def web(documents: int, shard_rows: int, *, backwards: bool = False) -> dict[str, list[Row]]:
    """Articles of two sources in shards, half of them with a notice, a third with a menu."""
    rng = np.random.default_rng(7)
    shards: dict[str, list[Row]] = {}
    for source in ("news", "web"):
        rows = [
            (
                f"{source}{number}",
                "en" if number % 5 else "fr",
                article(
                    f"{source} {number}",
                    *([NOTICE] if number % 2 else []),
                    *([f"\t{MENU}\r"] if number % 3 == 0 else []),
                    *(f"a sentence of few words, number {rng.integers(60)}" for _ in range(4)),
                ),
            )
            for number in range(documents)
        ]
        rows = rows[::-1] if backwards else rows
        for start in range(0, documents, shard_rows):
            shards[f"{source}/{start // shard_rows:05d}"] = rows[start : start + shard_rows]
    return dict(reversed(shards.items())) if backwards else shards


def in_python(shards: dict[str, list[Row]], least: int) -> dict[str, tuple[str, str]]:
    """The same, with sets of whole documents."""
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


def test_templates_over_shards_and_sources_go_and_nothing_else(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "settings",
    [
        {"partitions": 2},
        {"partitions": 7},
        {"memory_bytes": 2048},
        {"partitions": 3, "memory_bytes": 1024, "run_rows": 20},
    ],
    ids=str,
)
def test_partitions_passes_and_runs_change_nothing(tmp_path: Path, settings: dict[str, int]) -> None:
    shards = web(60, 13)
    assert run(tmp_path / "a", shards, least=4) == run(tmp_path / "b", shards, least=4, **settings)
    together = [
        pa.concat_tables(
            [read_table(find_repeated_lines.repeated_path(tmp_path / name, number)) for number in range(partitions)]
        ).sort_by([("source", "ascending"), ("line", "ascending")])
        for name, partitions in (("a", 1), ("b", settings.get("partitions", 1)))
    ]
    assert together[0].equals(together[1])
    assert together[0].num_rows > 40


def test_the_order_of_documents_and_the_size_of_shards_change_nothing(tmp_path: Path) -> None:
    one = run(tmp_path / "a", web(40, 40), least=4)
    assert one == run(tmp_path / "b", web(40, 7, backwards=True), least=4)
    tables = [find_repeated_lines.repeated_path(tmp_path / name, 0) for name in ("a", "b")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / name, web(20, 7))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) > 10
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


def test_code_stays_byte_for_byte_and_text_keeps_its_indentation_and_blank_lines(tmp_path: Path) -> None:
    """ROOTS' tool had its condition inverted: it took lines out of code alone, and indentation out of text."""
    code = f"# {NOTICE}\r\n\n\n    def f():\n\treturn 'a long enough line'\n   \n"
    text = f"  # {NOTICE}\r\n\n\n      indented %d\n\n\tmore of %d   \n"
    rows = [(f"code{n}", "code", code + f"{n}") for n in range(5)]
    rows += [(f"text{n}", "en", text % (n, n)) for n in range(5)]
    found = run(tmp_path, {"mixed/00000": rows})
    assert [found[f"code{n}"][1] for n in range(5)] == [code + f"{n}" for n in range(5)]
    assert [found[f"text{n}"][1] for n in range(5)] == [
        f"\n\n      indented {n}\n\n\tmore of {n}   \n" for n in range(5)
    ]
    assert counts(tmp_path, "mixed/00000")["languages"]["code"]["lines_removed"] == 0
    assert counts(tmp_path, "mixed/00000")["languages"]["en"]["lines_removed"] == 5


def test_copies_of_a_document_do_not_make_templates_of_its_lines(tmp_path: Path) -> None:
    same = article("everybody")
    rows = [(f"copy{n}", "en", same if n % 2 else same.replace("\n", "  \r\n\n")) for n in range(20)]
    rows += [(f"other{n}", "en", article("everybody", f"and {n} more")) for n in range(2)]
    shards = {"a/00000": rows[:9], "a/00001": rows[9:]}
    assert run(tmp_path / "a", shards, least=4) == {key: (language, text) for key, language, text in rows}
    found = run(tmp_path / "b", shards, least=3)
    assert (found["copy1"][1], found["other1"][1]) == ("", "and 1 more")


def test_a_line_of_very_many_documents_does_not_fill_the_memory() -> None:
    often, rare = 1000, np.repeat(np.arange(500, dtype=np.uint64), 4)
    lines = np.full(100_000, often, np.uint64)
    lines[::50] = rare
    contents = np.random.default_rng(1).permutation(len(lines)).astype(np.uint32)
    held = find_repeated_lines.Records(5, 1000)
    for start in range(0, len(lines), 500):
        columns = [pa.array(lines[start : start + 500]), pa.array(contents[start : start + 500])]
        held.add(pa.table(columns, schema=count_lines.LINES_SCHEMA))
        assert held.rows <= 2 * len(rare)
    assert held.repeated().tolist() == [often]


def test_a_line_counts_within_its_source_and_its_language_and_once_a_document(tmp_path: Path) -> None:
    often = "\n".join([NOTICE] * 9)
    shards = {
        "a/00000": [("a0", "en", article("a0", NOTICE)), ("a1", "fr", article("a1", NOTICE)), ("a2", "en", often)],
        "b/00000": [("b0", "en", article("b0", NOTICE)), ("b1", "en", article("b1", MENU))],
    }
    assert run(tmp_path / "a", shards, least=3) == {
        key: (language, text) for rows in shards.values() for key, language, text in rows
    }
    found = run(tmp_path / "b", shards, least={"a": 2, "b": 3})
    assert found["a0"] == ("en", article("a0"))
    assert found["a1"] == ("fr", article("a1", NOTICE))
    assert found["a2"] == ("en", "")
    assert found["b0"] == ("en", article("b0", NOTICE))


def test_long_lines_blank_lines_short_lines_and_an_empty_shard(tmp_path: Path) -> None:
    long = "ab " * 400_000 + "."
    rows = [(f"d{n}", "en", f"{long}\n \t \n\n{'short line':<14}\nown {n}\n") for n in range(4)]
    found = run(tmp_path, {"a/00000": rows, "a/00001": []})
    assert [found[f"d{n}"][1] for n in range(4)] == [f" \t \n\n{'short line':<14}\nown {n}\n" for n in range(4)]
    assert counts(tmp_path, "a/00001")["documents"] == 0


def test_what_went_from_a_text_can_be_told(tmp_path: Path) -> None:
    for before in (
        article("x", NOTICE, "", MENU, "  ", NOTICE) + "\n" + MENU,
        f"{NOTICE}\r\n\r\nbody\r\n{MENU}",
        NOTICE,
        f"\n{NOTICE}",
        "nothing of it",
    ):
        others = [("o1", "en", f"1\n{NOTICE}\n{MENU}"), ("o2", "en", f"2\n{NOTICE}\n{MENU}")]
        found = run(tmp_path / str(len(before)), {"a/00000": [("d", "en", before), *others]})
        gone = [line.strip() for line in before.split("\n") if line.strip() in (NOTICE, MENU)]
        assert strip_lines.removed_lines(before, found["d"][1]) == gone


def test_lines_of_another_shard_are_refused(tmp_path: Path) -> None:
    shards = web(10, 5)
    run(tmp_path, shards)
    # The raw shard was written anew, its lines were not counted again.
    raw = tmp_path / "raw" / "web/00000.parquet"
    write_table(raw, read_table(raw).slice(1), kind="documents", inputs={}, parameters="")
    with pytest.raises(InputError, match="the lines of another shard"):
        strip_lines.strip_lines(lines_stage(), raw, tmp_path, tmp_path / "out.parquet")


def test_the_chain_measures_compares_and_cleans_what_is_left(corpus_run: Any, tmp_path: Path) -> None:
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
    with pytest.raises(InputError, match="partition 2"):
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
