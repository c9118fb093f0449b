"""Test that Snakemake's messages show `${NAME}` as it was written, and never the value of the variable."""

from __future__ import annotations

import logging

import pytest

from bloomery.base import written_values
from bloomery.base.written_values import NAMES_VARIABLE, expand
from bloomery.orchestration.hide_values import hide_values


def test_messages_and_fields_of_records_are_shown_as_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(written_values, "_written", {})
    monkeypatch.setenv(NAMES_VARIABLE, "")
    monkeypatch.setenv("PLANTED", "hf_planted_secret")
    logger = logging.getLogger("test_hide_values")
    hide_values(logger)
    hide_values(logger)
    assert len(logger.filters) == 1
    expand("${PLANTED}", pytest.fail)
    plain = ["a", "b"]
    with caplog.at_level(logging.INFO, logger="test_hide_values"):
        logger.info("reads %s", "hf_planted_secret/x", extra={"input": ["hf_planted_secret/x", "y"], "output": plain})
        logger.error("no hf_planted_secret", extra={"jobid": 5})
    first, second = caplog.records
    assert first.getMessage() == "reads ${PLANTED}/x"
    assert first.__dict__["input"] == ["${PLANTED}/x", "y"]
    assert first.__dict__["output"] is plain
    assert (second.getMessage(), second.__dict__["jobid"]) == ("no ${PLANTED}", 5)
