"""Test the sentences on a page that name its inputs, and the mark of an artefact that is out of date."""

from __future__ import annotations

from bloomery.contracts import lineage
from bloomery.contracts.describe_origin import describe_origin, describe_stale
from bloomery.contracts.stale_artefacts import Stale


def test_the_origin_names_the_inputs_in_words_and_begins_with_the_version() -> None:
    text = describe_origin({lineage.TEXTS: "a" * 32, lineage.SECTION: "0123456789abcdef"})
    assert text.startswith("Made by Bloomery ")
    assert "configuration 0123456789ab, clean texts aaaaaaaaaaaa." in text
    assert text == describe_origin({lineage.SECTION: "0123456789abcdef", lineage.TEXTS: "a" * 32})
    assert describe_origin({}).count(":") == 0


def test_the_mark_states_how_to_build_the_artefact_again() -> None:
    text = describe_stale(Stale("training", "the corpus", "train"))
    assert text.startswith("Out of date: the training is older than the corpus. To build it again, ")
    assert text.endswith(" with the target train.")
