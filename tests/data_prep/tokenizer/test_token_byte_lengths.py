"""Compare the byte lengths of tokens with the decoded text."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from data_prep.tokenizer.token_byte_lengths import NO_TOKEN, token_byte_lengths

TEXTS = ["Tous les êtres humains", "人人生而自由", "सभी मनुष्यों को", "a\tb  c\n\n", "1990 – 2024 🙂", "\x00é\u0301"]


def byte_level() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder, made.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS * 3,
        trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, special_tokens=["</s>"], show_progress=False),
    )
    made.add_tokens([AddedToken("êtres humains", special=False, normalized=False)])
    return made


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_tokens_have_the_bytes_of_their_text(text: str) -> None:
    made = byte_level()
    assert token_byte_lengths(made)[made.encode(text).ids].sum() == len(text.encode())


def test_special_tokens_have_0_bytes_and_unused_ids_have_no_token() -> None:
    made = byte_level()
    lengths = token_byte_lengths(made)
    assert lengths[made.token_to_id("</s>")] == 0
    assert (lengths >= 0).all()
    holed = Tokenizer(models.BPE(vocab={"a": 0, "b": 3}, merges=[]))
    assert token_byte_lengths(holed).tolist() == [1, NO_TOKEN, NO_TOKEN, 1]


def test_sentencepiece_tokens_have_the_bytes_of_their_text_and_its_first_space() -> None:
    vocabulary = {"▁Tous": 0, "▁les": 1, "▁ê": 2, "tres": 3, "<0xF0>": 4, "<0x9F>": 5, "<0x99>": 6, "<0x82>": 7, "▁": 8}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    ids = [0, 1, 2, 3, 8, 4, 5, 6, 7]
    assert made.decode(ids) == " Tous les êtres 🙂"
    assert token_byte_lengths(made)[ids].sum() == len(" Tous les êtres 🙂".encode())


def test_wordpiece_tokens_have_the_bytes_of_their_text_and_a_first_space() -> None:
    made = Tokenizer(models.WordPiece(vocab={"[UNK]": 0, "hum": 1, "##ains": 2, "être": 3}, unk_token="[UNK]"))
    made.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    assert made.decode([3, 1, 2]) == "être humains"
    assert token_byte_lengths(made)[[3, 1, 2]].sum() == len(" être humains".encode())
