"""Train byte-level BPE on weighted counts and write the folder that `AutoTokenizer.from_pretrained` loads.

The folder holds `training.json`, `tokenizer_config.json`, `special_tokens_map.json` and `tokenizer.json`, which is
written last. `training.json` records the requested and the actual vocabulary size. A small corpus can run out of pairs;
the vocabulary is then smaller, which is not an error. The files do not depend on the order of the shards or on time.
The vocabulary is never padded; padding rows belong to the model (`model.padded_vocabulary_size`).

Memory: see `sums.py` for the summing of the counts. Training then needs about 85 bytes per piece of 9 bytes, for at
most `max_pieces` pieces (2.7 GB for 32 M pieces).
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
from data_prep.tokenizer.find_count_tables import CountTable, described, pre_tokenizer_of
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
    """Return the settings with the pre-tokenizer that the tables' manifests record.

    Args:
        config: settings of the training. They are returned unchanged if no manifest records another pre-tokenizer.
        tables: count tables.
        asked: whether the user chose the pre-tokenizer of `config`. If false, the pre-tokenizer of the tables replaces
            it.

    Raises:
        ConfigError: if `asked` is true and the tables record another pre-tokenizer.
        InputError: if the tables were counted with different pre-tokenizers.
    """
    counted = pre_tokenizer_of(tables)
    wanted = (config.pre_tokenizer, config.split_digits)
    if counted is None or counted == wanted:
        return config
    if asked:
        raise ConfigError(
            f"the pre-tokens were counted with the pre-tokenizer {described(counted)}, not with {described(wanted)}",
            where="tokenizer.pre_tokenizer",
            expected=f"{described(counted)}, or new counts made with {described(wanted)} (bloomery tokenizer count)",
        )
    name, split_digits = counted
    return TokenizerTraining.model_validate(config.model_dump() | {"pre_tokenizer": name, "split_digits": split_digits})


def train(
    config: TokenizerTraining, tables: Sequence[CountTable], weights: Path | None, folder: Path
) -> dict[str, Any]:
    """Train on the tables, write the files into `folder` and return the content of training.json.

    Args:
        config: settings of the training. `with_pre_tokenizer` must have checked the pre-tokenizer.
        tables: count tables.
        weights: path of a run's mixture.json or of a file with one weight per language. None for unweighted counts.
        folder: output folder. It also holds a temporary file for counts that do not fit into memory.

    Raises:
        ConfigError: if the vocabulary is too small for its fixed tokens.
        InputError: if counts or weights are missing, damaged or wrong, or if no pre-token has a weight above 0.
    """
    fixed = smallest_vocabulary(config.reserved_tokens)
    if config.vocabulary_size < fixed:
        raise ConfigError(
            f"a vocabulary of {config.vocabulary_size} entries is too small",
            where="tokenizer.vocabulary_size",
            expected=f"at least {fixed} ({len(SPECIAL_TOKENS)} special tokens, {config.reserved_tokens} reserved "
            "tokens and 256 bytes), or fewer reserved tokens (tokenizer.reserved_tokens, --reserved-tokens)",
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
        say(
            f"the training uses only the {seen.kept:,} most frequent pre-tokens (tokenizer.max_pieces) of "
            f"{seen.pieces:,} different ones; the used ones make up {seen.share:.2%} of all occurrences"
        )
    merges = _merges(trainer, config.vocabulary_size - fixed, seen.kept)
    got = fixed + len(merges)
    if got < config.vocabulary_size:
        say(
            f"warning: the corpus has no more pairs of tokens to merge, so the vocabulary has {got} tokens instead of "
            f"{config.vocabulary_size}"
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
    """Return a message with the size of the vocabulary and the commands to run next."""
    file = shlex.quote(str(folder / TOKENIZER))
    return (
        f"{folder}: {report['vocabulary']:,} tokens, {report['merges']:,} of them merges, trained on "
        f"{report['pieces']:,} different pre-tokens\nnext: bloomery tokenizer report --tokenizer {file} --corpus "
        f"SHARDS --output report, or bloomery encode SHARDS --tokenizer {file} "
        "--output PREFIX"
    )


class _Seen:
    """Count pieces and their weighted occurrences, before and after the selection of the most frequent pieces."""

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
        """Share of the weighted occurrences that belong to the selected pieces."""
        return self.kept_occurrences / self.occurrences


def _refuse_missing(mixture: Mixture | None, counted: CountedPieces, weights: Path | None) -> None:
    wanted = [] if mixture is None else [name for name, weight in mixture.datasets.items() if weight > 0]
    missing = [name for name in wanted if not counted.bytes.get(name)]
    if missing and len(missing) < len(wanted):
        raise InputError(
            f"this file sets weights for {', '.join(missing)}, but no text of these datasets was counted",
            where=str(weights),
            expected=f"weights only for datasets that were counted: {', '.join(sorted(counted.bytes))}",
        )


def _merges(trainer: _bpe.Trainer, asked: int, pieces: int) -> npt.NDArray[np.int32]:
    with Progress(f"train BPE on {pieces:,} pre-tokens", asked, "merges") as bar:
        merges = trainer.train(asked, lambda done: bar.advance(done - bar.done))
        bar.advance(len(merges) - bar.done)
    return merges
