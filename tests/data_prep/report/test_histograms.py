"""Test the histograms of measures."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bloomery.base.errors import InputError
from bloomery.config.corpus import LanguageIdConfig, Thresholds
from bloomery.config.stages import JudgeStage
from data_prep.formats.shard import write_table
from data_prep.report.histograms import distributions, ladder

STAGE = JudgeStage(
    thresholds={
        "default": Thresholds(max_digit_ratio=0.15, min_words=20),
        "fr": Thresholds(max_digit_ratio=0.1234, min_words=3, max_words=1000),
    },
    recipes={"loose": {"default": Thresholds(max_digit_ratio=0.5)}},
    recipe_of={"forum": "loose"},
    accept={},
    trusted_sources=[],
    language_id=LanguageIdConfig(),
)


@pytest.mark.parametrize("measure", ["words", "digit_ratio", "mean_word_length", "longest_line"])
def test_the_edges_of_a_histogram_ascend(measure: str) -> None:
    assert (np.diff(ladder(measure)) > 0).all()


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    table = pa.table({"language": ["en"], "words": [3]})
    write_table(tmp_path / "a.parquet", table, kind="measures", inputs={}, parameters="")
    (tmp_path / "a.parquet").write_bytes(b"x" * (tmp_path / "a.parquet").stat().st_size)
    with pytest.raises(InputError, match="Parquet"):
        distributions([("web", tmp_path / "a.parquet")], STAGE)
