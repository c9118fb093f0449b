"""Compare the compiled BPE trainer with Hugging Face ``tokenizers`` and with a short, slow reference trainer."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from data_prep.tokenizer import _bpe

pytestmark = pytest.mark.slow

UDHR_ARTICLE_1 = [  # real text, from the Universal Declaration of Human Rights
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and"
    " should act towards one another in a spirit of brotherhood.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience"
    " et doivent agir les uns envers les autres dans un esprit de fraternité.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia,"
    " deben comportarse fraternalmente los unos con los otros.",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميراً وعليهم أن يعامل بعضهم بعضاً بروح الإخاء.",
    "aaaa aaaaa aaaaaaa abababab ababab bababa aabaab 1111111 ....... ~~~~~~~~~~",
]


def byte_characters() -> list[str]:
    """Return the character that byte-level BPE uses for each byte (GPT-2's ``bytes_to_unicode``)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


CHARACTERS = byte_characters()
IDENTITY = np.arange(256, dtype=np.uint8)
HF_ORDER = np.argsort(np.argsort(CHARACTERS)).astype(np.uint8)  # Hugging Face sorts the alphabet by character


def train(
    counts: Mapping[bytes, int],
    merges: int,
    order: NDArray[np.uint8] = IDENTITY,
    min_frequency: int = 1,
    max_token_bytes: int = 1 << 20,
) -> list[tuple[int, int]]:
    offsets = np.cumsum([0, *map(len, counts)], dtype=np.int64)
    weights = np.array([*counts.values()], np.int64)
    made = _bpe.train(b"".join(counts), offsets, weights, order, merges, min_frequency, max_token_bytes)
    assert made.dtype == np.int32
    assert made.shape[1:] == (2,)
    return [(int(left), int(right)) for left, right in made]


def slow_train(counts: Mapping[bytes, int], merges: int, max_token_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    """Train by the definition of BPE: count every pair again before each merge."""
    words = [(list(piece), count) for piece, count in counts.items()]
    lengths = [1] * 256
    made: list[tuple[int, int]] = []
    while len(made) < merges:
        pairs: Counter[tuple[int, int]] = Counter()
        for word, count in words:
            for pair in pairwise(word):
                pairs[pair] += count
        fitting = [
            (-count, pair)
            for pair, count in pairs.items()
            if count and sum(lengths[t] for t in pair) <= max_token_bytes
        ]
        if not fitting:
            break
        best = min(fitting)[1]
        for word, _ in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = [256 + len(made)]
                at += 1
        made.append(best)
        lengths.append(lengths[best[0]] + lengths[best[1]])
    return made


def pieces_of(texts: Sequence[str]) -> Counter[bytes]:
    """Return the counts of the byte-level pieces that Hugging Face's pre-tokenizer finds."""
    byte_of = {character: byte for byte, character in enumerate(CHARACTERS)}
    splitter = ByteLevel(add_prefix_space=False)
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(bytes(byte_of[c] for c in piece) for piece, _ in splitter.pre_tokenize_str(text))
    return counts


def hf_train(texts: Sequence[str], merges: int, min_frequency: int) -> list[tuple[int, int]]:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=256 + merges,
        min_frequency=min_frequency,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]


@pytest.mark.parametrize("min_frequency", [1, 2, 5])
@pytest.mark.parametrize("copies", [1, 3])
def test_merges_equal_those_of_hugging_face(min_frequency: int, copies: int) -> None:
    texts = [text for i, text in enumerate(UDHR_ARTICLE_1) for _ in range(1 + i * (copies - 1))]
    expected = hf_train(texts, 2000, min_frequency)
    assert train(pieces_of(texts), 2000, HF_ORDER, min_frequency) == expected
    assert len(expected) > 20
    assert train(pieces_of(texts), 15, HF_ORDER, min_frequency) == expected[:15]


def test_merges_equal_those_of_hugging_face_when_dead_pairs_are_removed() -> None:
    """The words are so many that thousands of pairs no longer occur and the pair index is compacted several times."""
    generator = np.random.default_rng(0)
    syllables = ["".join(generator.choice(list("abcdefghijklmnoprstuvéñ"), 3)) for _ in range(300)]
    words = ["".join(generator.choice(syllables, generator.integers(1, 5))) for _ in range(20_000)]
    text = " ".join(word for word in words for _ in range(generator.geometric(0.4)))
    assert train(pieces_of([text]), 4000, HF_ORDER, 2) == hf_train([text], 4000, 2)


WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=14).map(str.encode), st.integers(0, 9), max_size=12)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(WORDS, st.integers(0, 30), st.sampled_from([1, 2, 3, 4, 7, 1 << 20]))
def test_merges_equal_the_definition(counts: dict[bytes, int], merges: int, max_token_bytes: int) -> None:
    expected = slow_train(counts, merges, max_token_bytes)
    assert train(counts, merges, max_token_bytes=max_token_bytes) == expected


@settings(max_examples=50, deadline=None)
@given(WORDS, st.permutations(range(256)))
def test_the_symbol_order_numbers_the_bytes_and_breaks_ties(counts: dict[bytes, int], order: list[int]) -> None:
    renamed = {bytes(order[byte] for byte in piece): count for piece, count in counts.items()}
    assert train(counts, 20, np.array(order, np.uint8)) == slow_train(renamed, 20)


def tokens_of(merges: list[tuple[int, int]]) -> list[bytes]:
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_no_two_tokens_have_the_same_bytes(counts: dict[bytes, int]) -> None:
    tokens = tokens_of(train(counts, 60))
    assert len(set(tokens)) == len(tokens)


def test_counts_beyond_32_bits_decide() -> None:
    """Counts that overflow at 2^31 or 2^32 give the wrong order of merges (tokenizers#760)."""
    assert train({b"ab": 2**31 + 1, b"cd": 2**31, b"ef": 2**33}, 3) == [(101, 102), (97, 98), (99, 100)]
    assert train({b"ab": 2**62, b"xab": 2**60}, 2) == [(97, 98), (120, 256)]


def test_a_trainer_accepts_pieces_in_parts_and_reports_progress() -> None:
    counts = pieces_of(UDHR_ARTICLE_1)
    trainer = _bpe.Trainer(IDENTITY, 1, 1 << 20)
    for piece, count in counts.items():
        for part in (1, count - 1):
            trainer.add(piece, np.array([0, len(piece)]), np.array([part]))
    told: list[int] = []
    assert trainer.train(500, told.append).tolist() == [list(pair) for pair in train(counts, 500)]
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] >= 256
    for again in (lambda: trainer.train(1), lambda: trainer.add(b"", np.array([0]), np.array([], np.int64))):
        with pytest.raises(ValueError, match="holds no pieces any more"):
            again()


def test_an_exception_of_the_progress_callback_ends_the_training() -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt(done)

    trainer = _bpe.Trainer(IDENTITY, 1, 1 << 20)
    trainer.add(b"abab", np.array([0, 4]), np.array([3]))
    with pytest.raises(KeyboardInterrupt):
        trainer.train(2, stop)


@pytest.mark.parametrize("count", [1, 17, 300, 2**20, 2**50])
def test_merges_do_not_depend_on_how_often_the_minimum_is_lowered(count: int) -> None:
    """Frequent pairs are indexed first: the minimum frequency of the indexed pairs is divided by 16 in each step."""
    generator = np.random.default_rng(count)
    words = {bytes(generator.integers(97, 103, size)): int(generator.integers(1, count + 1)) for size in range(2, 30)}
    assert train(words, 80) == slow_train(words, 80)


def test_pieces_repeated_in_the_input_add_up_and_order_does_not_matter() -> None:
    texts = UDHR_ARTICLE_1 * 2
    counts = pieces_of(texts)
    expected = train(counts, 500)
    assert train(dict(sorted(counts.items())), 500) == expected == train(dict(reversed(counts.items())), 500)
    data = b"abab" * 3 + b"cd"
    offsets = np.array([0, 4, 8, 12, 14])
    made = _bpe.train(data, offsets, np.array([1, 1, 1, 4]), IDENTITY, 2, 1, 99)
    assert made.tolist() == [[97, 98], [99, 100]]


def test_min_frequency_ends_the_training() -> None:
    counts = {b"ab": 5, b"cd": 4, b"ef": 3}
    assert train(counts, 10, min_frequency=4) == [(97, 98), (99, 100)]
    assert train(counts, 10, min_frequency=6) == []
    assert train({b"ab": 0}, 10, min_frequency=0) == []


def test_no_token_is_longer_than_the_limit() -> None:
    counts = pieces_of(UDHR_ARTICLE_1)
    for limit in (1, 2, 3, 6):
        assert max(map(len, tokens_of(train(counts, 3000, max_token_bytes=limit)))) == limit


def test_empty_input_gives_no_merges() -> None:
    assert train({}, 10) == []
    assert train({b"": 3, b"a": 7}, 10) == []
    assert train({b"ab": 1}, 0) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"counts": np.array([-1, 1])}, "negative"),
        ({"counts": np.array([2**62, 2**62])}, "overflow"),
        ({"counts": np.array([1])}, "counts"),
        ({"offsets": np.array([0, 9, 4])}, "offsets"),
        ({"offsets": np.array([0, 2, 7])}, "offsets"),
        ({"symbol_order": np.zeros(256, np.uint8)}, "permutation"),
        ({"symbol_order": IDENTITY[:255]}, "256"),
        ({"merges": -1}, "merges"),
        ({"min_frequency": -1}, "min_frequency"),
        ({"max_token_bytes": 0}, "max_token_bytes"),
    ],
)
def test_bad_input_raises_an_error(changed: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "pieces": b"abcabc",
        "offsets": np.array([0, 3, 6]),
        "counts": np.array([1, 1]),
        "symbol_order": IDENTITY,
        "merges": 1,
        "min_frequency": 1,
        "max_token_bytes": 9,
    }
    with pytest.raises(ValueError, match=message):
        _bpe.train(**(good | changed))  # type: ignore[arg-type]
