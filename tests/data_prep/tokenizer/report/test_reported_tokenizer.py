"""Test the tokenizer that a report describes."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer


def test_the_bytes_of_tokens_are_known_for_other_kinds_of_tokenizers():
    pieces = [("<unk>", 0.0), ("▁a", -1.0), ("<0x41>", -2.0), ("é", -3.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>"])
    subject = ReportedTokenizer.of(tokenizer)
    assert subject.tokens == [b"<unk>", b" a", b"A", "é".encode()]
    assert subject.single.tolist() == [False, False, True, False]
    assert subject.special.tolist() == [True, False, False, False]
