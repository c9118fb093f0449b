"""Test the format of numbers, and the HTML attributes `lang` and `dir` of each language."""

from data_prep.report.wording import count, language_attributes, number, percent


def test_numbers_are_formatted_for_readers() -> None:
    assert count(1234567) == "1\u202f234\u202f567"
    assert [percent(share) for share in (0, 0.0001, 0.034, 0.5, 0.9999, 1)] == [
        *("0\u202f%", "<\u202f0.1\u202f%", "3.4\u202f%", "50\u202f%", "99.9\u202f%", "100\u202f%"),
    ]
    assert [number(value) for value in (0.25, 12, 100000.0, 0.123456789)] == ["0.25", "12", "100\u202f000", "0.123457"]


def test_languages_are_tagged_for_browsers() -> None:
    assert language_attributes("ur") == " lang='ur' dir='rtl'"
    assert language_attributes("zht") == " lang='zh-Hant' dir='auto'"
    assert language_attributes("code") == " lang='' dir='ltr'"
