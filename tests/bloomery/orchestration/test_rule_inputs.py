"""Test the inputs and parameters of the rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planned_run import TOKENIZER, earlier_run, planned, release, token_source

from bloomery.orchestration.rule_inputs import (
    adopt_options,
    files_of_part,
    key_tables,
    member_tables,
    one_of,
    repeated_option,
    shards_of_pair,
    wildcard_values,
)

pytestmark = pytest.mark.usefixtures("no_site")


def test_names_are_split_into_the_values_of_two_wildcards() -> None:
    assert wildcard_values(["b/00000", "a/00001"]) == {"source": ["b", "a"], "part": ["00000", "00001"]}
    assert wildcard_values([]) == {"source": [], "part": []}


def test_one_of_matches_exactly_the_given_names() -> None:
    pattern = one_of(["web", "a.b", "web"])
    assert pattern == r"a\.b|web"
    assert re.fullmatch(pattern, "a.b")
    assert not re.fullmatch(pattern, "axb")
    assert not re.search(one_of([]), "")


def test_files_of_part_returns_the_input_files_of_a_part(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert files_of_part(plan, "web/00001") == [str(tmp_path / "texts/web/1.jsonl")]
    release(plan)
    plan = planned(tmp_path, sources=[token_source(tmp_path)], tokenizer=TOKENIZER)
    assert files_of_part(plan, "tokens/00000") == [str(tmp_path / "tokens.idx"), str(tmp_path / "tokens.bin")]


def test_shards_of_pair_returns_the_clean_shards_of_a_pair_of_token_files(tmp_path: Path) -> None:
    plan = planned(tmp_path, index={"shards_per_file": 2})
    clean = f"{tmp_path}/runs/small/corpus/clean"
    assert shards_of_pair(plan, "web/00000") == [f"{clean}/web/00000.parquet", f"{clean}/web/00001.parquet"]
    assert shards_of_pair(plan, "web/00002") == [f"{clean}/web/00002.parquet"]


def test_deduplication_reads_tables_of_this_run_and_of_earlier_runs(tmp_path: Path) -> None:
    old = earlier_run(tmp_path / "old")
    plan = planned(tmp_path, corpus={"dedup": {"against": [str(old)]}})
    own, earlier = f"{tmp_path}/runs/small/corpus", f"{old}/corpus"
    assert key_tables(plan, "web/00000") == [f"{own}/measures/web/00000.parquet", f"{own}/verdicts/web/00000.parquet"]
    assert key_tables(plan, "_earlier/0/old/00000") == [
        f"{earlier}/measures/old/00000.parquet",
        f"{earlier}/clean/old/00000.parquet",
    ]
    assert member_tables(plan, "web/00000") == [f"{own}/measures/web/00000.parquet", f"{own}/raw/web/00000.parquet"]
    assert member_tables(plan, "_earlier/0/old/00000") == [f"{earlier}/measures/old/00000.parquet"]


def test_member_tables_use_the_stripped_texts_if_lines_are_stripped(tmp_path: Path) -> None:
    plan = planned(tmp_path, corpus={"lines": {"enabled": True}})
    assert member_tables(plan, "web/00000")[1].endswith("/corpus/stripped/web/00000.parquet")


def test_repeated_option_writes_the_flag_before_every_file() -> None:
    assert repeated_option({"duplicates": ["a", "b c"], "repeated": [], "contaminated": ["d"]}) == [
        *("--duplicates", "a", "--duplicates", "b c"),
        *("--contaminated", "d"),
    ]


@pytest.mark.parametrize(
    ("ends", "flag"), [(True, "--end-of-document"), (False, "--without-end-of-document")], ids=["ends", "no-ends"]
)
def test_adopt_options_state_the_source_language_and_end_of_document(tmp_path: Path, ends: bool, flag: str) -> None:
    source = token_source(tmp_path) | {"ends_with_end_of_document": ends}
    plan = planned(tmp_path, sources=[source], tokenizer=TOKENIZER)
    assert adopt_options(plan, "tokens") == ["--source", "tokens", "--language", "fr", flag]
