"""Test the functions that make and join detections."""

from data_prep.corpus.langid import Detection
from data_prep.corpus.langid.detection import from_shares, joined


def test_joined_shares_are_fractions_of_the_whole_text() -> None:
    first = Detection(True, ["fr", "en"], [0.6, 0.4])
    assert joined(first, {}) == first
    assert joined(first, {"bm": 0.5}) == (True, ["bm", "fr", "en"], [0.5, 0.3, 0.2])
    assert joined(Detection(False, ["fr"], [0.2]), {"bm": 0.5}) == (True, ["bm", "fr"], [0.5, 0.2])
    assert joined(Detection(False, [], []), {"bm": 0.3}) == (False, ["bm"], [0.3])
    assert joined(first, {"bm": 1.0}) == (True, ["bm"], [1.0])
    assert from_shares({"b": 0.3, "a": 0.3, "c": 0.2, "d": 0.1, "e": 0.001}, True).codes == ["a", "b", "c"]
