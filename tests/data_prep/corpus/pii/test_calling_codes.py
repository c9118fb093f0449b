"""Test the table of international calling codes."""

import itertools

from data_prep.corpus.pii.calling_codes import CALLING_CODES
from data_prep.corpus.pii.countries import COUNTRIES


def test_no_calling_code_is_a_prefix_of_another() -> None:
    assert not [(a, b) for a, b in itertools.permutations(CALLING_CODES, 2) if b.startswith(a)]
    assert len({country.code for country in COUNTRIES}) == len(COUNTRIES)
