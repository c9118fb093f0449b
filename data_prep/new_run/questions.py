"""The questions of `bloomery init`.

For each question, the command has an option with the same meaning, so no question has to be answered on the terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["words", "text", "integer", "number"]


@dataclass(frozen=True)
class Question:
    """One choice that the user makes."""

    name: str
    """Name of the parameter of `bloomery init`. Its option is `--name` with hyphens."""
    text: str
    kind: Kind = "text"
    optional: bool = False
    """Whether the user may leave the choice to the program, by typing `auto`."""

    @property
    def option(self) -> str:
        """Option of `bloomery init` that answers the question."""
        return f"--{self.name.replace('_', '-')}"


QUESTIONS = (
    Question("source", "Files, patterns or folders with your texts, separated by spaces", "words"),
    Question("name", "Name of the run"),
    Question("language", "Language code of texts whose rows and file names state none (fr, sw, zhs, code, ...)"),
    Question("languages", "Languages to train on, separated by spaces", "words", optional=True),
    Question("vocabulary", "Number of entries of the tokenizer's vocabulary", "integer"),
    Question("minutes", "Time that the training may take on this machine, in minutes", "number"),
    Question("epochs", "Number of epochs, that is, how often the training reads the text", "number", optional=True),
    Question("parameters", "Number of parameters of the model", "integer", optional=True),
    Question("sequence_length", "Number of tokens in a training sample", "integer", optional=True),
)
"""Every question, in the order in which it is asked."""

Ask = Callable[[Question, Any], Any]
"""Function that asks the user. It gets the question and the proposed answer, and returns the answer."""


class Answers:
    """Answers to the questions, from options. Without an option, the user answers, or the proposal is taken."""

    def __init__(self, given: dict[str, Any], ask: Ask | None) -> None:
        """`given` holds the value of each option by the question's name. None or [] means that no option was given."""
        self._given = {name: value for name, value in given.items() if value is not None and value != []}
        self._ask = ask
        self._questions = {question.name: question for question in QUESTIONS}
        self.asked = set(self._given)
        """Names of the questions that an option answered, or that the user answered differently from the proposal."""

    def answer(self, name: str, proposed: Any) -> Any:
        """Return the answer to a question. None means that the program chooses."""
        if name in self._given:
            return self._given[name]
        if self._ask is None:
            return proposed
        answer = self._ask(self._questions[name], proposed)
        if answer != proposed:
            self.asked.add(name)
        return answer


def parse(question: Question, said: str) -> Any:
    """Return what the user typed as a value of the question's kind. Return None for `auto` if the question is optional.

    Raises:
        ValueError: the text is not a value of this kind. The message describes a valid value.
    """
    said = said.strip()
    if question.optional and said == "auto":
        return None
    if question.kind == "words":
        if words := said.replace(",", " ").split():
            return words
        raise ValueError("one or more words, separated by spaces")
    if question.kind == "text":
        if said:
            return said
        raise ValueError("a word")
    try:
        value = int(said.replace(",", "").replace("_", "")) if question.kind == "integer" else float(said)
    except ValueError as error:
        raise ValueError(f"a {'whole number' if question.kind == 'integer' else 'number'} above 0") from error
    if not 0 < value < 2**62:
        raise ValueError("a number above 0")
    return value


def ask_on_terminal(question: Question, proposed: Any) -> Any:
    """Ask on stderr until the answer is valid. An empty line takes the proposal."""
    from rich.console import Console
    from rich.prompt import Prompt

    console = Console(stderr=True)
    default = "auto" if proposed is None and question.optional else proposed
    shown = " ".join(default) if isinstance(default, list) else default
    while True:
        said = Prompt.ask(question.text, console=console, default=None if shown is None else str(shown))
        try:
            return parse(question, said or "")
        except ValueError as error:
            console.print(f"expected: {error}", markup=False)
