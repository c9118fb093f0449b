"""Test that messages show `${NAME}` as it was written, and never the value of an environment variable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bloomery.base import written_values
from bloomery.base.errors import InputError
from bloomery.base.written_values import NAMES_VARIABLE, as_written, expand, tree_as_written


@pytest.fixture(autouse=True)
def _no_earlier_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_values, "_written", {})
    monkeypatch.setenv(NAMES_VARIABLE, "")


def put_in(text: str) -> str:
    return expand(text, pytest.fail)


def test_a_value_is_replaced_wherever_it_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "hf_aBc'1\\2\n3")
    assert put_in("x/${PLANTED}/*.jsonl") == "x/hf_aBc'1\\2\n3/*.jsonl"
    for said in ("no file matches x/hf_aBc'1\\2\n3/*.jsonl", f"no file matches {os.environ['PLANTED']!r}"):
        assert "aBc" not in as_written(said)
        assert "${PLANTED}" in as_written(said)
    assert str(InputError("absent", where="x/hf_aBc'1\\2\n3/*.jsonl")) == "x/${PLANTED}/*.jsonl: absent"
    assert tree_as_written({"a": ["hf_aBc'1\\2\n3", 5]}) == {"a": ["${PLANTED}", 5]}


def test_a_value_that_was_removed_from_the_environment_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "secret-1234")
    put_in("${PLANTED}")
    monkeypatch.delenv("PLANTED")
    assert as_written("a secret-1234 b") == "a ${PLANTED} b"


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("data", "the key training.parallel.data", "the key training.parallel.data"),
        ("data", "no folder data/fr", "no folder ${PLANTED}/fr"),
        ("data", "metadata", "metadata"),
        ("/data", "/data/fr.jsonl and /mnt/data/x", "${PLANTED}/fr.jsonl and /mnt/data/x"),
        ("s3cr3t", "password s3cr3t.", "password ${PLANTED}."),
        ("s3cr3t-s3cr3t", "xs3cr3t-s3cr3ty", "x${PLANTED}y"),
        ("5", "5 problems", "5 problems"),
    ],
)
def test_short_values_are_replaced_as_whole_words(
    monkeypatch: pytest.MonkeyPatch, value: str, text: str, shown: str
) -> None:
    monkeypatch.setenv("PLANTED", value)
    put_in("${PLANTED}")
    assert as_written(text) == shown


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLANTED", raising=False)
    absent: list[str] = []
    assert expand("a ${PLANTED} b", absent.append) == "a ${PLANTED} b"
    assert absent == ["PLANTED"]


def test_a_process_started_later_hides_the_value_and_inherits_only_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "hf_planted_secret")
    put_in("${PLANTED}")
    assert os.environ[NAMES_VARIABLE] == "PLANTED"
    code = "from bloomery.base.progress import say; say('path /x/hf_planted_secret/y')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "path /x/${PLANTED}/y\n"
