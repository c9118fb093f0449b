"""Test the measures of documents."""

import numpy as np
import pytest
from measured_rows import FRENCH, measured, stage

from bloomery.config.corpus import Thresholds
from data_prep.corpus.judge import RULES, failures


@pytest.mark.parametrize("size", [1, 2, 3])
def test_measures_do_not_depend_on_batches(size: int) -> None:
    rows = [
        ("s", "fr", FRENCH),
        ("s", "zhs", "今天天气很好，我们走。"),
        ("s", "en", ""),
        ("s", "en", "x y z"),
        ("s", "fr", "é"),
    ]
    assert measured(*rows, batch=size).combine_chunks().equals(measured(*rows).combine_chunks())


def test_every_threshold_names_a_measure() -> None:
    table = measured(("s", "fr", FRENCH))
    names = {rule[4:] for rule in Thresholds.model_fields}
    assert names <= set(table.column_names)
    everything = stage(fr=dict.fromkeys(Thresholds.model_fields, 0.5))
    broken, _ = failures(table, everything)
    assert np.array_equal(broken.any(axis=1), [
        rule in Thresholds.model_fields and (
            table[rule[4:]][0].as_py() < 0.5 if rule.startswith("min") else table[rule[4:]][0].as_py() > 0.5
        )
        for rule in RULES
    ])  # fmt: skip
