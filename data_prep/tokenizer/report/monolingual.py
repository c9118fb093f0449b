"""Train a tokenizer for one language alone, to compare it with the shared tokenizer of all languages.

The training uses the same trainer and the same counts as the shared tokenizer. The vocabulary is limited so that the
tokenizer cannot memorise all words of the language. The limit is the smallest of three numbers: the configured size,
the size of the shared tokenizer, and 256 (one entry per byte) plus the number of different pieces that occur more than
once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.corpus.columns import text_buffers
from data_prep.index.encoder import Encoder
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import recognise
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer
from data_prep.tokenizer.vocabulary import SPECIAL_TOKENS, build_tokenizer, symbol_order

BYTES = 256
MIN_FREQUENCY = 2
MAX_TOKEN_BYTES = 64


def monolingual_size(asked: int, shared: int, repeated: int) -> int:
    """Return the greatest number of entries of a language's own tokenizer, without its special tokens.

    Args:
        asked: configured size.
        shared: size of the shared tokenizer.
        repeated: number of different pieces that occur more than once.
    """
    return min(asked, shared, BYTES + repeated)


def train_monolingual(shared: ReportedTokenizer, pieces: pa.Table, asked: int) -> ReportedTokenizer:
    """Return a tokenizer trained on one language, with the pre-tokenizer of `shared`.

    Args:
        shared: the reported tokenizer, which must have one of Bloomery's pre-tokenizers.
        pieces: the language's counts, with the columns piece and count.
        asked: configured size of the vocabulary.
    """
    trainer = _bpe.Trainer(symbol_order(), MIN_FREQUENCY, MAX_TOKEN_BYTES)
    texts = pieces["piece"].combine_chunks()
    data, offsets = text_buffers(texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts)
    trainer.add(data, offsets, np.asarray(pieces["count"]))
    repeated = pc.sum(pc.greater(pieces["count"], 1)).as_py() or 0
    merges = trainer.train(max(monolingual_size(asked, shared.size, repeated) - BYTES, 0))
    tokenizer = build_tokenizer(merges, 0, shared.tokenizer.pre_tokenizer)
    preset = recognise(shared.description)
    assert preset is not None, "counts are used only for a tokenizer with a pre-tokenizer preset"
    first = len(SPECIAL_TOKENS)
    wholes = np.arange(len(merges), dtype=np.int32) + BYTES
    kernel = _bpe.Encoder(
        symbol_order().astype(np.int32) + first, np.column_stack([merges, wholes]).astype(np.int32) + first, *preset
    )
    return ReportedTokenizer(tokenizer, Encoder(tokenizer, kernel))
