"""Check the numbers of documents that other limits would remove: they are computed from histograms, and must equal
counts of all values.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bloomery.config.corpus import LanguageIdConfig, Thresholds
from bloomery.config.stages import JudgeStage
from data_prep.formats.shard import write_table
from data_prep.report.histograms import below, distributions, ladder, up_to
from data_prep.report.sections.limits import beyond, steps
from data_prep.report.what_if import quantiles, what_if

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


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[str, Path]], pa.Table]:
    """Write random measures of three parts from two sources. Many values equal a limit, and some are NaN."""
    folder = tmp_path_factory.mktemp("measures")
    random = np.random.default_rng(7)
    files, tables = [], []
    for number, source in enumerate(["web", "web", "forum"]):
        rows = 20_000
        digits = np.where(
            random.random(rows) < 0.2, random.choice([0, 0.1234, 0.15, 0.5, 1], rows), random.random(rows) ** 3
        )
        digits[random.random(rows) < 0.01] = np.nan
        words = np.where(random.random(rows) < 0.2, random.choice([0, 3, 20, 1000], rows), random.lognormal(5, 2, rows))
        table = pa.table(
            {
                "source": [source] * rows,
                "language": random.choice(["en", "fr", "yo"], rows, p=[0.6, 0.39, 0.01]),
                "digit_ratio": digits,
                "words": words.astype(np.int64),
                "detected": ["xx"] * rows,
            }
        )
        files.append((source, folder / f"{number}.parquet"))
        write_table(files[-1][1], table, kind="measures", inputs={}, parameters="")
        tables.append(table)
    return files, pa.concat_tables(tables)


def values(table: pa.Table, measure: str, **where: str) -> Any:
    keep = np.ones(table.num_rows, dtype=bool)
    for column, value in where.items():
        keep &= table[column].to_numpy() == value
    found = table[measure].to_numpy()[keep].astype(np.float64)
    return found[~np.isnan(found)]


def test_the_documents_that_each_limit_removes_equal_a_count_over_every_value(measured: Any) -> None:
    files, table = measured
    found = what_if(distributions(files, STAGE), STAGE)
    assert list(found) == ["min_words", "max_words", "max_digit_ratio"]
    for rule, entry in found.items():
        for code, one in entry["languages"].items():
            own = values(table, rule[4:], language=code)
            assert one["documents"] == len(own)
            compare = np.less if rule.startswith("min_") else np.greater
            assert one["removed"] == [int(compare(own, limit).sum()) for limit in entry["at"]]
            now = 0
            for source in ("web", "forum"):
                limit = getattr(STAGE.limits(source, code), rule)
                now += (
                    0
                    if limit is None
                    else int(compare(values(table, rule[4:], language=code, source=source), limit).sum())
                )
            assert one["removed_now"] == now
    assert found["max_digit_ratio"]["languages"]["fr"]["limits"] == [0.1234, 0.5]
    assert found["max_words"]["languages"]["en"]["limits"] == []


def test_counts_below_and_up_to_each_edge_are_exact(measured: Any) -> None:
    files, table = measured
    one = distributions(files, STAGE)["digit_ratio"]
    assert {0.1234, 0.15, 0.5} <= set(one.edges.tolist())
    for code in one.languages:
        own = values(table, "digit_ratio", language=code)
        assert below(one.of(code)).tolist() == [int((own < edge).sum()) for edge in one.edges]
        assert up_to(one.of(code)).tolist() == [int((own <= edge).sum()) for edge in one.edges]


def test_quantiles_are_near_the_exact_ones(measured: Any) -> None:
    files, table = measured
    found = quantiles(distributions(files, STAGE))
    for measure in ("digit_ratio", "words"):
        own = values(table, measure, language="en")
        for name, value in found[measure]["en"].items():
            exact = np.quantile(own, int(name[1:]) / 100)
            place = int(np.searchsorted(ladder(measure), exact))
            around = ladder(measure)[max(place - 2, 0) : place + 2]
            assert around[0] <= value <= around[-1]


def test_steps_and_their_parts_beyond_a_limit_add_up(measured: Any) -> None:
    files, _ = measured
    for rule, entry in what_if(distributions(files, STAGE), STAGE).items():
        for one in entry["languages"].values():
            found = steps(rule, one["removed"], one["documents"])
            assert sum(found) == one["documents"]
            gone = beyond(rule, found, one["removed_now"])
            assert sum(gone) == one["removed_now"]
            assert all(0 <= part <= whole for part, whole in zip(gone, found, strict=True))
            for place in range(len(entry["at"])):
                gone = beyond(rule, found, one["removed"][place])
                inside = gone[: place + 1] if rule.startswith("min_") else gone[place + 1 :]
                assert sum(inside) == sum(gone) == one["removed"][place]
