"""Trains byte-level BPE on weighted counts and writes the folder that `AutoTokenizer.from_pretrained` loads.

Files, `tokenizer.json` last: `tokenizer_config.json`, `special_tokens_map.json`, and `training.json`, which says what
was asked for and what was got (a small corpus runs out of pairs; the vocabulary is then smaller, which is no error).
Nothing in them depends on the order of shards or on time. The vocabulary is never padded: rows that no token needs are
the model's (`model.padded_vocabulary_size`).

Memory: what `sums.py` says, then about 85 bytes for each of at most `max_pieces` pieces (of 9 bytes; 32 M: 2.7 GB).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bloomery.base.atomic import explained
from bloomery.base.digest import digest_file
from bloomery.base.errors import ConfigError, InputError
from bloomery.base.progress import Progress, say
from bloomery.config.tokens import TokenizerTraining, smallest_vocabulary
from bloomery.contracts.tokenizer import TOKENIZER
from data_prep.corpus.columns import text_buffers
from data_prep.formats.mixture import Mixture
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.count_tables import CountTable, described, pre_tokenizer_of
from data_prep.tokenizer.folder import TRAINING, write_folder
from data_prep.tokenizer.mixture_weights import read_weights
from data_prep.tokenizer.most_frequent import Cut, Part, above_cut, find_cut
from data_prep.tokenizer.pre_tokenizer import build
from data_prep.tokenizer.sums import Sums
from data_prep.tokenizer.vocabulary import (
    BEGIN,
    END_OF_DOCUMENT,
    PADDING,
    SPECIAL_TOKENS,
    UNKNOWN,
    build_tokenizer,
    symbol_order,
)
from data_prep.tokenizer.weigh_counts import CountedPieces, WeightedPieces


def with_pre_tokenizer(
    config: TokenizerTraining, tables: Sequence[CountTable], *, asked: bool = True
) -> TokenizerTraining:
    """The settings with the pre-tokenizer by which the tables say that their pieces were cut.

    Raises ConfigError when another one was `asked` for, InputError when the tables contradict each other.
    """
    counted = pre_tokenizer_of(tables)
    wanted = (config.pre_tokenizer, config.split_digits)
    if counted is None or counted == wanted:
        return config
    if asked:
        raise ConfigError(
            f"the pieces were cut by {described(counted)}, not by {described(wanted)}",
            where="tokenizer.pre_tokenizer",
            expected=f"{described(counted)}, or counts made anew",
        )
    name, split_digits = counted
    return TokenizerTraining.model_validate(config.model_dump() | {"pre_tokenizer": name, "split_digits": split_digits})


def train(
    config: TokenizerTraining, tables: Sequence[CountTable], weights: Path | None, folder: Path
) -> dict[str, Any]:
    """Train on the tables and write the files into `folder`; returns the content of training.json.

    Args:
        config: settings; its pre-tokenizer is taken as it is.
        tables: count tables.
        weights: mixture.json or plain weights; None takes the counts as they are.
        folder: where the files go, and for the time of the training what does not fit into memory.

    Raises:
        ConfigError: a vocabulary too small for its fixed tokens.
        InputError: missing, damaged or wrong counts or weights, nothing to train on.
    """
    fixed = smallest_vocabulary(config.reserved_tokens)
    if config.vocabulary_size < fixed:
        raise ConfigError(
            f"a vocabulary of {config.vocabulary_size} is too small",
            where="tokenizer.vocabulary_size",
            expected=f"at least {fixed} ({len(SPECIAL_TOKENS)} special, {config.reserved_tokens} reserved, 256 bytes), "
            "or fewer reserved tokens (--reserved-tokens)",
        )
    mixture = None if weights is None else read_weights(weights)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    trainer = _bpe.Trainer(symbol_order(), config.min_frequency, config.max_token_bytes)
    with Sums(folder) as sums:
        counted = CountedPieces(sums)
        counted.read(tables, mixture)
        _refuse_missing(mixture, counted, weights)
        weighted = WeightedPieces.of(counted, None if mixture is None else mixture.datasets)
        cut = find_cut(weighted, config.max_pieces) if sums.rows > config.max_pieces else Cut(0, 0)
        seen = _Seen()
        for pieces, counts in above_cut(seen.each(weighted), cut):
            trainer.add(*text_buffers(pieces), counts)
            seen.keep(counts)
    pa.default_memory_pool().release_unused()
    if cut.count:
        say(f"{seen.kept:,} of {seen.pieces:,} pieces are kept, the most frequent: {seen.share:.2%} of the occurrences")
    merges = _merges(trainer, config.vocabulary_size - fixed, seen.kept)
    got = fixed + len(merges)
    if got < config.vocabulary_size:
        say(
            f"warning: the corpus has no more pairs to merge: {got} tokens instead of {config.vocabulary_size}. "
            "The vocabulary is smaller than asked for."
        )
    report: dict[str, Any] = {
        "vocabulary_asked": config.vocabulary_size,
        "vocabulary": got,
        "merges": len(merges),
        "pre_tokenizer": {"preset": config.pre_tokenizer, "split_digits": config.split_digits},
        "pieces": seen.kept,
        "pieces_found": seen.pieces,
        "weighted_pieces": seen.kept_occurrences,
        "share_kept": seen.share,
        "factors": weighted.factors,
        "language_bytes": dict(sorted(counted.bytes.items())),
        "inputs": {
            "mixture": None if weights is None else digest_file(weights),
            "counts": {table.name: digest_file(table.path) for table in tables},
        },
    }
    pre_tokenizer = build(config.pre_tokenizer, config.split_digits)
    roles = {"bos": BEGIN, "eos": END_OF_DOCUMENT, "pad": PADDING, "unk": UNKNOWN}
    tokenizer = build_tokenizer(merges, config.reserved_tokens, pre_tokenizer)
    write_folder(folder, f"{tokenizer.to_str(pretty=True)}\n".encode(), roles, TRAINING, report)
    return report


def summary(report: dict[str, Any], folder: Path) -> str:
    """What was trained, and the command that comes next."""
    file = shlex.quote(str(folder / TOKENIZER))
    return (
        f"{folder}: {report['vocabulary']:,} tokens, {report['merges']:,} of them merges, from {report['pieces']:,} "
        f"pieces\nnext: bloomery tokenizer report --tokenizer {file} --corpus SHARDS --output-json report.json "
        f"--output-html report.html, or bloomery encode SHARDS --tokenizer {file} --output PREFIX"
    )


class _Seen:
    """How many pieces went by, and how many of them were kept."""

    def __init__(self) -> None:
        self.pieces = self.occurrences = self.kept = self.kept_occurrences = 0

    def each(self, parts: Iterable[Part]) -> Iterable[Part]:
        for pieces, counts in parts:
            self.pieces += len(pieces)
            self.occurrences += int(counts.sum())
            yield pieces, counts

    def keep(self, counts: npt.NDArray[np.int64]) -> None:
        self.kept += len(counts)
        self.kept_occurrences += int(counts.sum())

    @property
    def share(self) -> float:
        """Of the weighted occurrences, how many were kept."""
        return self.kept_occurrences / self.occurrences


def _refuse_missing(mixture: Mixture | None, counted: CountedPieces, weights: Path | None) -> None:
    wanted = [] if mixture is None else [name for name, weight in mixture.datasets.items() if weight > 0]
    missing = [name for name in wanted if not counted.bytes.get(name)]
    if missing and len(missing) < len(wanted):
        raise InputError(
            f"weighs {', '.join(missing)}, of which the counts have nothing",
            where=str(weights),
            expected=f"some of {', '.join(sorted(counted.bytes))}",
        )


def _merges(trainer: _bpe.Trainer, asked: int, pieces: int) -> npt.NDArray[np.int32]:
    with Progress(f"train BPE on {pieces:,} pieces", asked, "merges") as bar:
        merges = trainer.train(asked, lambda done: bar.advance(done - bar.done))
        bar.advance(len(merges) - bar.done)
    return merges
