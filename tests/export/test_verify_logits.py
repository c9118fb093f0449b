"""Test the comparison of the exported model's logits with those of training."""

from __future__ import annotations

import pytest

from bloomery.base.errors import CheckFailedError
from export.verify_logits import Comparison, check


def comparison(difference=1e-6, logit=4.0):
    return Comparison(3, 72, difference, logit, 1.0, "the river", " runs")


@pytest.mark.parametrize(("difference", "logit", "passes"), [(1e-4, 1.0, True), (3e-4, 4.0, True), (5e-5, 0.1, True)])
def test_the_difference_is_relative_to_the_greatest_logit_or_one(difference, logit, passes):
    check(comparison(difference, logit), 1e-4, where="here")


@pytest.mark.parametrize(("difference", "logit"), [(2e-4, 1.0), (2e-4, 0.01), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_a_difference_above_the_tolerance_or_not_finite_fails(difference, logit):
    with pytest.raises(CheckFailedError, match=r"export\.tolerance"):
        check(comparison(difference, logit), 1e-4, where="here")
