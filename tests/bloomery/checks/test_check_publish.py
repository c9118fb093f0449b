"""Test that the model and the logs cannot have the same repository."""

from __future__ import annotations

import pytest
from changed_sample import changed, message

from bloomery.checks.load_config import validate_config


@pytest.mark.parametrize(
    "names",
    [
        {"model_repository": "a", "logs_repository": "a"},
        {"model_repository": "a", "logs_repository": "A"},
        {"logs_repository": "m"},
        {"model_repository": "m-logs"},
    ],
)
def test_equal_repository_names_are_refused(names: dict[str, str]) -> None:
    text = message(changed(export__model_name="m", publish=names))
    assert "publish.model_repository and publish.logs_repository give" in text


def test_different_repository_names_are_accepted() -> None:
    assert validate_config(changed(publish={"model_repository": "a", "logs_repository": "b"}))
