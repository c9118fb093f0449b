"""Test which checkpoints a publication chooses, and the records of published checkpoints."""

from __future__ import annotations

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.bundle import Bundle, LocalFile
from bloomery.base.errors import InputError
from bloomery.contracts.checkpoint import DAMAGED_NAME, step_name
from bloomery.contracts.paths import RunPaths
from export.published_checkpoint import choose_every, read_record, write_record


@pytest.fixture
def paths(tmp_path):
    made = RunPaths(tmp_path / "tiny")
    for iteration in (10, 20, 25, 30, 40, 60):
        (made.checkpoints / step_name(iteration)).mkdir(parents=True)
    return made


def chosen(paths, every):
    return [each.name for each in choose_every(paths, "tiny", every, "step00000060")]


def test_kept_checkpoints_at_multiples_are_chosen_without_damaged_ones_and_the_final_one(paths):
    write_json(paths.checkpoints / "step00000030" / DAMAGED_NAME, {})
    assert chosen(paths, 10) == ["step00000010", "step00000020", "step00000040"]
    assert chosen(paths, 25) == ["step00000025"]
    assert chosen(paths, 60) == []


def test_an_interval_without_a_checkpoint_is_refused_with_the_kept_iterations(paths):
    with pytest.raises(InputError, match="no checkpoint at a multiple of 7 iterations") as found:
        chosen(paths, 7)
    assert "10, 20, 25, 30, 40, 60" in found.value.expected
    with pytest.raises(InputError) as found:
        choose_every(RunPaths(paths.run / "other"), "tiny", 1, "")
    assert "the newest: none" in found.value.expected


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_counts_as_missing(tmp_path):
    path, sent = tmp_path / "step00000010.json", LocalFile.of(b"weights")
    assert read_record(path) is None
    write_record(path, "step00000010", "http://hub", "o/m", "abc", {"checkpoint": "1"}, Bundle("m", {"a": sent}, True))
    record = read_record(path)
    assert (record.endpoint, record.repository, record.commit) == ("http://hub", "o/m", "abc")
    expected = record.files["a"].expected
    assert (expected.size, expected.sha256, expected.git_oid) == (sent.size, sent.sha256, sent.git_oid)
    path.write_text("{}")
    assert read_record(path) is None
