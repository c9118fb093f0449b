"""Test the word lists of a language."""

import pytest
from pydantic import ValidationError

from bloomery.config.words import WordLists


@pytest.mark.parametrize("entry", ["", " ", "a ", "a  b", "a,b", "\ufeffa", "a\u200bb", "'a", "a-b", "a " * 8 + "a"])
def test_an_entry_that_cannot_occur_in_a_document_is_refused(entry: str) -> None:
    with pytest.raises(ValidationError, match="one space between"):
        WordLists(stop_words=[entry])
