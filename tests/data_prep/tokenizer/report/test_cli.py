"""Test the verb `bloomery tokenizer report`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bloomery.base.errors import InputError, ResourceError
from data_prep.tokenizer.cli import app


def test_a_missing_reference_is_refused_before_anything_is_read(plant, tmp_path):
    tokenizer = plant(["ab"])
    with pytest.raises(InputError, match=r"reference tokenizer 'x': .*no such file or folder"):
        CliRunner().invoke(
            app,
            ["report", "--tokenizer", str(tokenizer), "--corpus", str(tmp_path / "none"), "--reference", "x=/no/where",
             "--output", str(tmp_path / "made")],
            catch_exceptions=False,
        )  # fmt: skip


def test_the_verb_needs_no_run_and_prints_the_languages(plant, make_shard, tmp_path):
    shard, tokenizer = make_shard("s/00000", {"en": ["abab ab"], "fr": ["é, a"]}), plant(["ab"])
    common = ["report", "--tokenizer", str(tokenizer.parent), "--corpus", str(shard),
              "--output", str(tmp_path / "made")]  # fmt: skip
    result = CliRunner().invoke(app, common, catch_exceptions=False)
    assert result.stdout.splitlines() == [
        "en\t2.00\t1.75\t1.75\t25.0 %\t1.00\t–",
        "fr\t2.50\t1.00\t0.80\t100.0 %\t1.75\t–",
    ]
    assert str(tmp_path / "made/tokenizer.html") in result.stderr
    result = CliRunner().invoke(app, [*common, "--json"], catch_exceptions=False)
    assert json.loads(result.stdout) == json.loads((tmp_path / "made/tokenizer.json").read_text())


def test_a_report_beneath_a_file_is_refused(plant, make_shard, tmp_path):
    shard, tokenizer = make_shard("s/00000", {"en": ["a"]}), plant([])
    words = ["report", "--tokenizer", str(tokenizer), "--corpus", str(shard)]
    result = CliRunner().invoke(app, [*words, "--output", str(tokenizer / "made")])
    assert isinstance(result.exception, ResourceError)
