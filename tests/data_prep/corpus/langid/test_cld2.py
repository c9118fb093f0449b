"""Test the detection of languages with CLD2."""

from measured_rows import FRENCH

from data_prep.corpus.langid import detect


def test_vocalised_arabic_and_control_characters_are_identified() -> None:
    """CLD2 alone takes vocalised Arabic for Bosnian, and rejects control characters and noncharacters."""
    verse = "بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ الرَّحْمَٰنِ الرَّحِيمِ مَالِكِ يَوْمِ الدِّينِ"
    assert detect(verse).codes[0] == "ar"
    for odd in ("\x7f", "\x0c", "\x85", "\ufffe", "\U0010ffff", "\ufdd0"):
        assert detect(FRENCH + odd).codes[0] == "fr"
    assert detect("12345 !!!") == (False, [], [])
