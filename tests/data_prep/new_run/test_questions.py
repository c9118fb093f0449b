"""Test the questions of `bloomery init`, their options and their answers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from data_prep import init_cli
from data_prep.new_run.questions import QUESTIONS, Answers, Question, ask_on_terminal, parse

BY_NAME = {question.name: question for question in QUESTIONS}


def test_every_question_has_an_option_and_every_option_a_question() -> None:
    options = set(inspect.signature(init_cli.init).parameters) - set(init_cli.CONTROL)
    assert options == set(BY_NAME)
    assert BY_NAME["sequence_length"].option == "--sequence-length"


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("source", "a.jsonl, b", ["a.jsonl", "b"]),
        ("name", " x ", "x"),
        ("vocabulary", "16,384", 16_384),
        ("minutes", "2.5", 2.5),
        ("epochs", "auto", None),
        ("parameters", "10_000_000", 10_000_000),
    ],
)
def test_typed_text_becomes_a_value(name: str, said: str, value: Any) -> None:
    assert parse(BY_NAME[name], said) == value


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vocabulary", "many"),
        ("vocabulary", "1.5"),
        ("minutes", "0"),
        ("minutes", "auto"),
        ("epochs", "-1"),
        ("source", " "),
        ("name", ""),
        ("minutes", "nan"),
        ("minutes", "inf"),
    ],
)
def test_typed_text_that_is_not_a_valid_value_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"number|word"):
        parse(BY_NAME[name], said)


def test_an_option_replaces_the_question_and_an_answer_replaces_the_proposal() -> None:
    def ask(question: Question, proposed: Any) -> Any:
        return f"{question.name} instead of {proposed}"

    answers = Answers({"name": "given", "vocabulary": None, "source": []}, ask)
    assert answers.answer("name", "proposed") == "given"
    assert answers.answer("vocabulary", 1) == "vocabulary instead of 1"
    assert answers.answer("source", None) == "source instead of None"
    assert answers.asked == {"name", "vocabulary", "source"}
    assert Answers({}, None).answer("vocabulary", 1) == 1


def test_an_accepted_proposal_is_not_the_users_choice() -> None:
    answers = Answers({}, lambda _, proposed: proposed)
    assert answers.answer("vocabulary", 1) == 1
    assert answers.asked == set()


def test_a_wrong_answer_is_asked_again_and_an_empty_one_takes_the_proposal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["many", "4096", "", ""])
    monkeypatch.setattr("builtins.input", lambda *_: next(lines))
    assert ask_on_terminal(BY_NAME["vocabulary"], 8192) == 4096
    assert ask_on_terminal(BY_NAME["vocabulary"], 8192) == 8192
    assert ask_on_terminal(BY_NAME["epochs"], None) is None
    printed = capsys.readouterr()
    assert "expected: a whole number above 0" in printed.err
    assert printed.out == ""
