"""Test the whole corpus chain on the embedded sample with its planted defects, and on a folder of real text."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from real_corpus import corpus_files
from repository import SAMPLE

from bloomery.base.digest import document_id
from bloomery.base.errors import InputError
from data_prep.formats.shard import DOCUMENT_SCHEMA, read_manifest, read_table

pytestmark = pytest.mark.slow

RULES = {
    "wrong-language": {"wrong_language"},
    "repetition": {"max_character_repetition_ratio", "max_word_repetition_ratio", "max_duplicate_line_ratio"},
    "symbols": {"max_special_ratio", "min_alphabetic_word_ratio"},
    "numbers": {"max_digit_ratio"},
    "boilerplate": {"max_short_line_ratio", "max_newline_ratio", "min_terminal_punctuation_ratio"},
    "too-short": {"min_words", "min_characters"},
    "broken-encoding": {"max_replacement_ratio"},
}
PLACEHOLDERS = {"email": "<EMAIL>", "ip": "<IP>"}


@pytest.fixture(scope="module")
def defects() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((SAMPLE / "defects.json").read_text())
    return {key: defect for key, defect in found.items() if defect["expect"] in ("removed", "redacted")}


def test_each_planted_defect_is_removed_or_redacted_as_expected(
    sample_run: Any, defects: dict[str, dict[str, str]]
) -> None:
    rules = {row["id"]: set(row["rules"]) for row in sample_run.rows("verdicts")}
    clean = {row["id"]: row["text"] for row in sample_run.rows("clean")}
    duplicates = {row["id"]: row for row in sample_run.duplicates()}
    assert set(RULES) < {defect["kind"] for defect in defects.values()}
    for key, defect in defects.items():
        identity, kind = document_id("sample", key), defect["kind"]
        if kind in RULES:
            assert rules[identity] & RULES[kind], key
            assert identity not in clean
        elif kind.endswith("-duplicate"):
            # One of the two similar documents is removed, and its row names the document that is kept.
            pair = {identity, document_id("sample", defect["of"])}
            [gone] = pair & set(duplicates)
            assert duplicates[gone]["duplicate_of"] in pair, key
            assert duplicates[gone]["kind"] == kind.removesuffix("-duplicate")
            assert pair & set(clean) == pair - {gone}
        else:
            assert PLACEHOLDERS[kind] in clean[identity], key
            assert "@" not in clean[identity]


def test_good_documents_stay(sample_run: Any, defects: dict[str, dict[str, str]]) -> None:
    planted = {document_id("sample", key) for key in defects}
    planted |= {document_id("sample", defect["of"]) for defect in defects.values() if "of" in defect}
    good = {row["id"] for row in sample_run.rows("raw")} - planted
    lost = good - {row["id"] for row in sample_run.rows("clean")}
    assert len(lost) < 0.03 * len(good)


def test_the_counts_of_clean_shards_add_up(sample_run: Any) -> None:
    total = Counter[str]()
    for part in sample_run.parts:
        table = sample_run.table("clean")
        assert table.schema.equals(DOCUMENT_SCHEMA)
        counts = read_manifest(sample_run.path("clean", part))["counts"]
        for language in counts["languages"].values():
            gone = sum(rule["documents"] for rule in language["removed"].values())
            assert language["in"]["documents"] == language["out"]["documents"] + gone
        total.update(counts["out"])
    rows = sample_run.rows("clean")
    assert total == {"documents": len(rows), "bytes": sum(len(row["text"].encode()) for row in rows)}
    mixture = json.loads((sample_run.corpus / "mixture.json").read_text())
    assert sum(entry["weight"] for entry in mixture["languages"].values()) == pytest.approx(1, abs=1e-12)
    assert sum(entry["bytes"] for entry in mixture["languages"].values()) == total["bytes"]
    assert mixture["sources"]["sample"]["documents"] == total["documents"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_second_run_writes_the_same_bytes(sample_run: Any) -> None:
    before = files_of(sample_run.corpus)
    sample_run.all()
    assert files_of(sample_run.corpus) == before
    assert not [name for name in before if name.endswith(".tmp")]


def written(folder: Path, *rows: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "en.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def texts(count: int) -> list[str]:
    with (SAMPLE / "en.jsonl").open() as file:
        return [json.loads(line)["text"] for _, line in zip(range(count), file, strict=False)]


def test_a_part_without_a_good_row_goes_through_the_chain(corpus_run: Any, tmp_path: Path) -> None:
    written(tmp_path / "a")
    written(tmp_path / "b", *({"text": text} for text in texts(20)))
    source = {"name": "s", "kind": "jsonl", "paths": [f"{tmp_path}/*/en.jsonl"], "max_bad_share": 0.5}
    run = corpus_run([source], ingest={"shard_bytes": 4096, "max_document_bytes": 4096})
    assert len(run.parts) > 1
    run.all()
    report, _ = run.report()
    assert [read_table(run.path("clean", part)).num_rows > 0 for part in run.parts][:2] == [False, True]
    assert read_table(run.path("clean", run.parts[0])).schema.equals(DOCUMENT_SCHEMA)
    assert report["bad_rows"]["reasons"] == {"empty file": 1}
    assert report["repeated_ids"] == 0


def test_ids_that_repeat_between_parts_are_reported(corpus_run: Any, tmp_path: Path) -> None:
    found = texts(20)
    written(tmp_path / "a", *({"id": number, "text": text} for number, text in enumerate(found[:10])))
    written(tmp_path / "b", *({"id": number, "text": text} for number, text in enumerate(found[10:], start=5)))
    for field, repeated in (("id", 5), (None, 0)):
        source = {"name": "s", "kind": "jsonl", "paths": [f"{tmp_path}/*/en.jsonl"], "id_field": field}
        limits = {"shard_bytes": 4096, "max_document_bytes": 4096}
        run = corpus_run([source], ingest=limits, dedup={"partitions": 3})
        assert len(run.parts) > 1
        run.all()
        assert run.report()[0]["repeated_ids"] == repeated


def test_a_small_source_of_bad_rows_stops_the_chain_before_deduplication(corpus_run: Any, tmp_path: Path) -> None:
    paths = [str(written(tmp_path / "a", *["{"] * 20))]
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": paths}])
    with pytest.raises(InputError, match=r"sources\[s\]: 20 of 20 rows are bad .*invalid JSON \(20\)"):
        run.all()
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": paths, "max_bad_share": 1.0}])
    with pytest.raises(InputError, match="the sources contain no document"):
        run.all()


def test_the_error_of_an_empty_corpus_names_the_rules_that_removed_it(corpus_run: Any, tmp_path: Path) -> None:
    paths = [
        str(written(tmp_path / "a", *({"text": text} for text in ("word " * 3, "two words", "!!!! word ???? " * 60))))
    ]
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": paths}])
    with pytest.raises(InputError, match=r"most were removed by the rules min_words \(2\), \w+ \(1\)"):
        run.all()


@pytest.mark.parametrize("kind", ["raw", "measures", "verdicts"])
def test_a_flipped_byte_stops_the_next_stage_and_names_the_table(corpus_run: Any, tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / "a", *({"text": text} for text in texts(20)))
    run = corpus_run([{"name": "s", "kind": "jsonl", "paths": [str(path)]}])
    run.judge()
    table = run.path(kind, run.parts[0])
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(InputError, match=rf"{table}: the file is damaged: its content does not match"):
        (run.reread if kind == "raw" else run.finish)()


def test_the_section_of_measure_depends_on_bands_and_not_on_min_jaccard(corpus_run: Any) -> None:
    source = {"name": "s", "kind": "jsonl", "paths": [f"{SAMPLE}/en.jsonl"]}
    sections = [
        corpus_run([source], dedup={"near": near}).section("measure.json").read_bytes()
        for near in ({}, {"min_jaccard": 0.9, "enabled": False}, {"bands": 20})
    ]
    assert sections[0] == sections[1] != sections[2]


def test_an_environment_variable_may_name_a_folder_of_zst_files(
    corpus_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = ("wo", "sn", "nso", "ts", "st", "yo", "ig")
    monkeypatch.setenv("CORPUS_FOLDER", str(corpus_files(*languages)[0].parent))
    source = {
        "name": "folder",
        "kind": "jsonl",
        "paths": [f"${{CORPUS_FOLDER}}/{code}.jsonl.zst" for code in languages],
        "language_field": "lang",
        "id_field": "id",
        "max_bad_share": 0.5,
    }
    run = corpus_run([source], ingest={"shard_bytes": "64KiB", "max_document_bytes": "64KiB"})
    run.ingest()
    assert len(run.parts) > 1
    counts = [read_manifest(run.path("raw", part))["counts"] for part in run.parts]
    assert {code for count in counts for code in count["languages"]} == set(languages)
    assert {reason for count in counts for reason in count["bad_reasons"]} == {"too long"}
    run.all()
    assert run.table("clean").num_rows + len(run.duplicates()) == sum(run.table("verdicts")["kept"].to_pylist())
