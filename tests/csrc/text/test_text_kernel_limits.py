"""Test the text kernel with extreme documents: surrogates, NULs, an empty document and a line of 100 MB."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repository import ROOT

from data_prep.corpus import _text

GIB = 1 << 30

ANYTHING = st.text(
    st.one_of(
        st.sampled_from("ab \n\0\ud800\udfff\ue000\ufffe\u200d'"),
        st.characters(categories=["L", "M", "N", "P", "C", "S", "Z"]),
    ),
    max_size=60,
)


def everything(blob: bytes, unspaced: bool) -> dict[str, object]:
    """Return the results of all kernels for a document."""
    one = blob, np.array([0, len(blob)], np.int64)
    flags = np.array([unspaced], np.uint8)
    lists = _text.WordLists([(["a"], ["a b"], unspaced)])
    found: dict[str, object] = {
        name: values[0].tolist() for name, values in _text.measure(*one, flags, lists, np.zeros(1, np.int32)).items()
    }
    found["minhash"] = _text.minhash(*one, flags, 3, 3, 4, 2, 0).tolist()
    found["shingles"] = _text.shingles(*one, flags, 3, 3)[0].tolist()
    return found


@settings(max_examples=300, deadline=None)
@given(ANYTHING, st.booleans())
def test_lone_surrogates_count_as_malformed_bytes_and_nuls_as_characters(text: str, unspaced: bool) -> None:
    """Python strings may hold surrogates, but UTF-8 may not. Each of a surrogate's three bytes decodes to U+FFFD."""
    blob = text.encode("utf-8", "surrogatepass")
    found = everything(blob, unspaced)
    assert found | {"bytes": 0} == everything(blob.decode("utf-8", "replace").encode(), unspaced) | {"bytes": 0}
    surrogates = sum("\ud800" <= character <= "\udfff" for character in text)
    assert found["characters"] == len(text) + 2 * surrogates
    assert surrogates == 0 or found["replacement_ratio"] > 0


def test_a_nul_is_a_special_character_and_separates_words() -> None:
    found = everything(b"a\0b", False)
    assert (found["characters"], found["words"], found["special_ratio"]) == (3, 2, 1 / 3)


@pytest.mark.parametrize("unspaced", [False, True])
def test_an_empty_document_has_measures_of_0(unspaced: bool) -> None:
    found = everything(b"", unspaced)
    assert all(not np.any(value) for name, value in found.items() if name not in ("minhash", "shingles"))
    assert _text.measure(b"", np.zeros(1, np.int64), np.zeros(0, np.uint8))["words"].shape == (0,)


LINE = """
import json, sys, time
import numpy as np
from data_prep.corpus import _text

size, kind = int(sys.argv[1]), sys.argv[2]
alphabet = np.frombuffer(b"aaabcdeefghiijklmnoopqrrssttuvw       " if kind == "words" else b"x", np.uint8)
blob = np.random.default_rng(0).choice(alphabet, size // 10).tobytes() * 10
flags, lists = np.zeros(1, np.uint8), _text.WordLists([(["a"], ["a i"], False)])
start = time.perf_counter()

def measure(data):
    found = _text.measure(data, np.array([0, len(data)]), flags, lists, np.zeros(1, np.int32))
    return {name: values[0].tolist() for name, values in found.items()}

whole = measure(blob)
seconds = time.perf_counter() - start
# getrusage would also count the memory of the parent process at the time of the fork.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
print(json.dumps([whole, measure(blob[: _text.SCOPE_CHARACTERS]), peak, seconds]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "one word"])
def test_a_line_of_100_mb_takes_seconds_and_less_than_a_gib(kind: str) -> None:
    size = 100_000_000
    command = [sys.executable, "-c", LINE, str(size), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    whole, start, peak, seconds = json.loads(done.stdout)
    assert peak < GIB, f"{peak / GIB:.2f} GiB, including the line"
    assert seconds < 30
    assert (whole["characters"], whole["lines"], whole["longest_line"]) == (size, 1, size)
    # Repetition and listed words are measured in the first SCOPE_CHARACTERS, all other measures in the whole line.
    repetition = [name for name in whole if "repetition" in name or "gram_ratio" in name]
    for name in [*repetition, "stop_word_ratio", "flagged_word_ratio"]:
        assert whole[name] == start[name], name
    assert whole["words"] >= start["words"]
    assert whole["mean_word_length"] == pytest.approx(start["mean_word_length"] if kind == "words" else size, rel=0.01)
