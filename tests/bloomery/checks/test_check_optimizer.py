"""Test that keys of LAMB that a run does not use are refused."""

from __future__ import annotations

from typing import Any

import pytest
from changed_sample import changed, message


@pytest.mark.parametrize(
    ("lamb", "expected"),
    [
        ({"dialect": "floor", "use_nvlamb": True}, "use_nvlamb applies only to the dialect 'apex', but the dialect is"),
        ({"alpha": 0.5}, "alpha applies only to the dialect 'embedding_gain', but the dialect is 'apex'"),
        ({"dialect": "lamb2"}, "training.optimizer.lamb.dialect"),
        ({"norms": "local"}, "training.optimizer.lamb.norms"),
    ],
)
def test_keys_that_the_dialect_does_not_use_are_refused(lamb: dict[str, Any], expected: str) -> None:
    assert expected in message(changed(training__optimizer__kind="lamb", training__optimizer__lamb=lamb))


def test_the_section_is_refused_for_other_optimizers() -> None:
    text = message(changed(training__optimizer__lamb={"dialect": "floor"}))
    assert "training.optimizer.lamb applies only to training.optimizer.kind 'lamb', but the kind is 'adam'" in text
