"""Test the table of national telephone numbers."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.corpus.pii import redact
from data_prep.corpus.pii.countries import COUNTRIES, Country, compiled


@pytest.mark.parametrize("country", COUNTRIES, ids=lambda country: country.code)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_numbers_in_every_sure_form_of_a_country_are_redacted(country: Country, data: st.DataObject) -> None:
    def fits(written: str) -> bool:
        return bool(re.fullmatch(country.national, "".join(filter(str.isdigit, written))))

    ascii_only = st.characters(max_codepoint=126)
    for form in country.sure:
        written = data.draw(st.from_regex(compiled(form), fullmatch=True, alphabet=ascii_only).filter(fits))
        assert redact(f"tel {written}", ["phone"])[0] == "tel <PHONE>", written
