"""Lists of words of a language."""

import pytest
from pydantic import ValidationError

from bloomery.config.words import WordLists


@pytest.mark.parametrize("entry", ["", " ", "a ", "a  b", "a,b", "\ufeffa", "a\u200bb", "'a", "a-b", "a " * 8 + "a"])
def test_what_no_document_can_hold_is_no_entry(entry: str) -> None:
    with pytest.raises(ValidationError, match="one space between"):
        WordLists(stop_words=[entry])
