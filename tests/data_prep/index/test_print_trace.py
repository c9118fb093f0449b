"""Test the printed form of a trace."""

from data_prep.index.visible import visible


def test_long_texts_are_shortened_in_the_middle():
    from data_prep.index.print_trace import shortened

    text = "".join(chr(0x4E00 + number) for number in range(5000))
    short = shortened(text)
    assert short.startswith(text[:200])
    assert short.endswith(text[-100:])
    assert len(short) < 400
    assert "4,640 characters" in short
    assert shortened(text[:400]) == text[:400]
    assert visible("a\x00\n\t\x9b\ue000b", newlines=True) == "a␀⏎\n⇥⟨U+009B⟩⟨U+E000⟩b"
