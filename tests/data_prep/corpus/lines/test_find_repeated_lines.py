"""Test the search for lines that many documents repeat."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from repeated_lines import article, run, web

from data_prep.corpus.lines import find_repeated_lines
from data_prep.formats.shard import read_table


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
def test_partitions_passes_and_sorted_runs_do_not_change_the_result(tmp_path: Path, settings: dict[str, int]) -> None:
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


def test_document_order_and_shard_size_do_not_change_the_result(tmp_path: Path) -> None:
    one = run(tmp_path / "a", web(40, 40), least=4)
    assert one == run(tmp_path / "b", web(40, 7, backwards=True), least=4)
    tables = [find_repeated_lines.repeated_path(tmp_path / name, 0) for name in ("a", "b")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_copies_of_a_document_count_as_one_document(tmp_path: Path) -> None:
    same = article("everybody")
    rows = [(f"copy{n}", "en", same if n % 2 else same.replace("\n", "  \r\n\n")) for n in range(20)]
    rows += [(f"other{n}", "en", article("everybody", f"and {n} more")) for n in range(2)]
    shards = {"a/00000": rows[:9], "a/00001": rows[9:]}
    assert run(tmp_path / "a", shards, least=4) == {key: (language, text) for key, language, text in rows}
    found = run(tmp_path / "b", shards, least=3)
    assert (found["copy1"][1], found["other1"][1]) == ("", "and 1 more")
