"""Compare the compiled code that splits text into pre-tokens with `tokenizers`, and test what each preset does."""

import json
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from bloomery.config.tokens import TokenizerConfig
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import MODERN_PATTERN, PRESETS, build, recognise

WAYS = [(name, split_digits) for name in PRESETS for split_digits in (False, True)]
TRICKY = (
    " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u200b\u2003\u2028\u202f\u3000\ufeff().,|!?…。，、।۔،][aé人ا"
    "1٣²½Ⅷ〇𖿴\u200c\u200d\u0301िं्ًA'’_-+€😀\ufe0f\U0001f3fd"
)
TEXTS = st.text(TRICKY, max_size=30) | st.text(max_size=30)
# Sentences in scripts with different marks, digits and spaces.
SENTENCES = (
    "Il y a 1 234 567 façons (l'été, l’hiver…) d'être  là.\r\n\r\n\tfor i in range(10):\n        x += 1\n",
    "سَلامٌ عَلَيْكُمْ، كيف حالك؟ می‌خواهم بروم. ٢٠٢٤ ۱۲۳",
    "हिन्दी में कि ज़्यादा, क्षत्रिय। १९४७ র‍্যাব বাংলা দেশ। ന്‍ മലയാളം தமிழ் తెలుగు",
    "今天天气很好，我们去公园吧。2024年10月、テスト！한국어 텍스트입니다.",
    "Ẹ kú àárọ̀; ọ̀rẹ́ mi! ñandú e\u0301te\u0301 👩‍👩‍👧 ❤️‍🔥 #tag @me https://a.b/c?d=e&f=1 <s></s>",
)


def pieces(text: str, name: str, split_digits: bool) -> list[str]:
    blob = text.encode()
    ends = _bpe.piece_ends(blob, name, split_digits).tolist()
    return [blob[start:end].decode() for start, end in pairwise([0, *ends])]


def published(name: str, split_digits: bool) -> Callable[[str], list[str]]:
    pre_tokenizer = build(name, split_digits)
    return lambda text: [text[start:end] for _, (start, end) in pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(("name", "split_digits"), WAYS)
@given(text=TEXTS)
def test_the_split_equals_that_of_tokenizers(name: str, split_digits: bool, text: str) -> None:
    found = pieces(text, name, split_digits)
    assert found == published(name, split_digits)(text)
    assert "".join(found) == text
    assert "" not in found


@pytest.mark.parametrize(("name", "split_digits"), WAYS)
def test_the_split_of_many_languages_equals_that_of_tokenizers(name: str, split_digits: bool) -> None:
    split = published(name, split_digits)
    for text in (*SENTENCES, "".join(SENTENCES), " ".join(SENTENCES)):
        for start in range(0, len(text), 7):
            assert pieces(text[start:], name, split_digits) == split(text[start:])


def characters() -> Iterator[str]:
    return (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split_digits"), WAYS)
def test_every_character_is_split_as_by_tokenizers(name: str, split_digits: bool) -> None:
    """If this test fails with a new version of `tokenizers`, run csrc/bpe/generate_class_table.py again.

    The test splits every character in seven contexts. It also splits a text of only that character. Characters that
    are letters without case, unassigned or for private use (97 % of all) are split in two contexts.
    """
    split = published(name, split_digits)

    def surrounded(one: str) -> str:
        if unicodedata.category(one) in ("Lo", "Cn", "Co"):
            return f"a{one}1{one}"
        return f"a{one}b {one}{one} {one}b1{one}2 {one}\n{one}"

    for chunk in _chunks(list(characters()), 1 << 10):
        text = "".join(map(surrounded, chunk))
        if pieces(text, name, split_digits) != split(text):
            for one in chunk:
                assert pieces(surrounded(one), name, split_digits) == split(surrounded(one)), f"U+{ord(one):04X}"
            pytest.fail(
                f"two neighbours between U+{ord(chunk[0]):04X} and U+{ord(chunk[-1]):04X} are split differently"
            )
    for one in characters():
        if unicodedata.category(one) not in ("Lo", "Cn", "Co"):
            assert pieces(one, name, split_digits) == split(one), f"U+{ord(one):04X}"


@pytest.mark.slow
def test_the_table_of_characters_fits_the_installed_tokenizers() -> None:
    """This check of all characters takes only seconds. A letter joins its neighbours; a number or symbol does not."""
    for chunk in _chunks(list(characters()), 1 << 14):
        text = "".join(f"a{one}b" for one in chunk)
        assert pieces(text, "modern", True) == published("modern", True)(text)


def _chunks(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def test_bloom_keeps_runs_of_spaces_whole() -> None:
    assert pieces("a    b, c\n\n  d", "bloom", False) == ["a", "   ", " b", ",", " c", "\n\n ", " d"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("कि हिन्दी", ["कि", " हिन्दी"]),
        ("سَلامٌ می\u200cخواهم", ["سَلامٌ", " می\u200cخواهم"]),
        ("র\u200d্যাব", ["র\u200d্যাব"]),
        ("don't l'été", ["don", "'t", " l", "'été"]),
        ("_a -b\tc", ["_a", " -", "b", "\tc"]),
        ("1234567 a1b", ["123", "456", "7", " a", "1", "b"]),
        ("  x = (1);\n\n  y", [" ", " x", " =", " (", "1", ");\n\n", " ", " y"]),
        ("a  \n \t\n  b", ["a", "  \n \t\n", " ", " b"]),
        ("a   ", ["a", "   "]),
        ("a  1", ["a", " ", " ", "1"]),
        ("", []),
    ],
)
def test_modern_splits_texts_into_these_pieces(text: str, wanted: list[str]) -> None:
    assert pieces(text, "modern", False) == wanted


@pytest.mark.parametrize("name", PRESETS)
def test_split_digits_makes_each_numeric_character_a_piece(name: str) -> None:
    assert pieces("a12 ٣½Ⅷ", name, True) == ["a", "1", "2", " ", "٣", "½", "Ⅷ"]


@pytest.mark.parametrize("name", PRESETS)
def test_malformed_bytes_are_split_like_symbols(name: str) -> None:
    """A byte that is not part of a character counts as a symbol: neither a letter nor white space."""
    for bad in (
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xe4\xba",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\xa0",
        b"\xf4\x90\x80\x80",
    ):
        for before, after in ((b"a ", b" b"), (b" ", b""), (b"\n", b"1")):
            text = before + bad + after
            symbols = (before + b"$" * len(bad) + after).decode()
            found = [0, *_bpe.piece_ends(text, name, False).tolist()]
            wanted = [0]
            for piece in pieces(symbols, name, False):
                wanted.append(wanted[-1] + len(piece))
            assert found == wanted


def test_recognise_returns_the_preset_of_a_tokenizer_json() -> None:
    for name, split_digits in WAYS:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = build(name, split_digits)
        assert recognise(json.loads(tokenizer.to_str())) == (name, split_digits)


def test_the_tokenizer_json_of_bloom_is_recognised() -> None:
    """The steps are those of the pre-tokenizer in bigscience/bloom's tokenizer.json."""
    split = {
        "type": "Split",
        "pattern": {"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"},
        "behavior": "Isolated",
        "invert": False,
    }
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    assert recognise({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_]}}) == ("bloom", False)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"pre_tokenizer": None},
        {"pre_tokenizer": []},
        {"pre_tokenizer": {"type": "Sequence"}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [None]}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}},
    ],
)
def test_another_pre_tokenizer_is_not_recognised(given: dict[str, object]) -> None:
    assert recognise(given) is None


@pytest.mark.parametrize(
    ("step", "key", "value"),
    [(0, "behavior", "Removed"), (0, "invert", True), (0, "pattern", {"String": "a"}), (-1, "add_prefix_space", True)],
)
def test_a_changed_step_is_not_recognised(step: int, key: str, value: object) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build("modern")
    description = json.loads(tokenizer.to_str())
    description["pre_tokenizer"]["pretokenizers"][step][key] = value
    assert recognise(description) is None


def test_the_configuration_accepts_exactly_these_presets() -> None:
    annotation = TokenizerConfig.model_fields["pre_tokenizer"].annotation
    assert set(getattr(annotation, "__args__", ())) == set(PRESETS)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ValueError, match="named gpt"):
        _bpe.piece_ends(b"a", "gpt", False)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_modern_pattern_gives_the_same_split_in_javascript(tmp_path: Path) -> None:
    """The texts have only characters of Python's Unicode version, which is older, so the JavaScript engine knows them
    too."""
    known = [one for one in characters() if unicodedata.category(one) != "Cn"]
    texts = [*SENTENCES, *("".join(f"a{one}b {one}1\n" for one in chunk) for chunk in _chunks(known, 1 << 12))]
    (tmp_path / "given.json").write_text(json.dumps([MODERN_PATTERN, texts]))
    program = (
        "const [pattern, texts] = JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8'));"
        "const regex = new RegExp(pattern, 'gu');"
        "console.log(JSON.stringify(texts.map(text => text.match(regex))));"
    )
    done = subprocess.run(["node", "-e", program, tmp_path / "given.json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [pieces(text, "modern", False) for text in texts]
