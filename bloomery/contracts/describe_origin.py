"""Describe for the readers of a page what the page was made from, and whether an artefact is out of date."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from bloomery.contracts import lineage
from bloomery.contracts.stale_artefacts import Stale

_DIGITS = 12
"""Digits of a digest that a page shows."""
_WORDS = {
    lineage.TEXTS: "clean texts",
    lineage.MIXTURE: "mixture",
    lineage.TOKENIZER_INPUT: "tokenizer",
    lineage.TRAINING: "finished training",
    lineage.SECTION: "configuration",
}


def describe_origin(made_from: Mapping[str, str]) -> str:
    """Return a sentence with the version of Bloomery and the first digits of the digests of a page's inputs.

    The sentence has no date, so equal inputs give equal pages.
    """
    inputs = [f"{_WORDS.get(name, name)} {digest[:_DIGITS]}" for name, digest in sorted(made_from.items())]
    begin = f"Made by Bloomery {version('bloomery')}"
    if not inputs:
        return f"{begin}."
    return (
        f"{begin} from these inputs, each with the first {_DIGITS} digits of its digest: {', '.join(inputs)}. "
        "The command bloomery summary shows whether one of these inputs has changed since then."
    )


def describe_stale(stale: Stale) -> str:
    """Return sentences that say what is out of date and how to build it again.

    They may be published, so they do not contain the recorded command, which can name folders of the user's machine.
    """
    return (
        f"Out of date: the {stale.artefact} is {stale}. To build it again, repeat the command that started the run, "
        f"with the target {stale.target}."
    )
