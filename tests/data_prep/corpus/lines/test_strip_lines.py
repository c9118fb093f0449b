"""Test the removal of repeated lines from documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from repeated_lines import MENU, NOTICE, article, counts, lines_stage, run, web

from bloomery.base.errors import InputError
from data_prep.corpus.lines import strip_lines
from data_prep.formats.shard import read_table, write_table


def test_code_does_not_change_and_text_keeps_indentation_and_blank_lines(tmp_path: Path) -> None:
    """The tool of ROOTS inverted the condition: it removed lines from code only, and indentation from text."""
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


def test_removed_lines_returns_the_lines_removed_from_a_text(tmp_path: Path) -> None:
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


def test_lines_counted_from_an_older_shard_are_refused(tmp_path: Path) -> None:
    shards = web(10, 5)
    run(tmp_path, shards)
    # The raw shard is rewritten, but its lines are not counted again.
    raw = tmp_path / "raw" / "web/00000.parquet"
    write_table(raw, read_table(raw).slice(1), kind="documents", inputs={}, parameters="")
    with pytest.raises(InputError, match="were counted in another version of the shard"):
        strip_lines.strip_lines(lines_stage(), raw, tmp_path, tmp_path / "out.parquet")
