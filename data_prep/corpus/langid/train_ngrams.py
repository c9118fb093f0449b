"""Train the n-gram model of language identification from labelled text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bloomery.base.errors import InputError
from data_prep.corpus.langid.ngrams import BUCKETS, SCALE, UNSEEN, NgramModel, ngrams
from data_prep.formats.shard import iterate_batches

MIN_BYTES = 4096
"""Least bytes of training text for a language. The Declaration of Human Rights in Bambara has 9 KB; a model that is
trained on one half of it recognises the other half."""
MAX_BYTES = 4 << 20
"""Bytes of training text after which no more text of a language is read."""
_PIECE_CHARACTERS = 1 << 16


def labelled(shards: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield (language, text) of every document of the shards. Raises InputError for a missing or damaged shard."""
    for shard in shards:
        for batch in iterate_batches(shard, ["language", "text"]):
            yield from zip(batch["language"].to_pylist(), batch["text"].to_pylist(), strict=True)


def train(
    texts: Iterable[tuple[str, str]],
    languages: Iterable[str],
    base: NgramModel | None = None,
    min_bytes: int = MIN_BYTES,
    max_bytes: int = MAX_BYTES,
) -> NgramModel:
    """Train a model on `texts`, which are pairs (language, text). It detects `languages` and the languages of `base`.

    Every other language is added to the comparison if it has at least `min_bytes` of text. Languages that are not
    trained here keep their column of `base`. Documents of a language are read in order, up to and including the one
    that reaches `max_bytes` of UTF-8.

    Raises:
        InputError: one of `languages` has less than `min_bytes` of text, or the model would have a single language.
    """
    counts: dict[str, npt.NDArray[np.int64]] = {}
    sizes: dict[str, int] = {}
    for language, text in texts:
        if sizes.setdefault(language, 0) >= max_bytes:
            continue
        sizes[language] += len(text.encode("utf-8"))
        total = counts.setdefault(language, np.zeros(BUCKETS, np.int64))
        for buckets in ngrams(text, _PIECE_CHARACTERS):
            total += np.bincount(buckets, minlength=BUCKETS)
    wanted = sorted(set(languages))
    for language in wanted:
        if sizes.get(language, 0) < min_bytes or not counts[language].any():
            raise InputError(
                f"{sizes.get(language, 0)} bytes of text in the language {language!r} are not enough",
                where="training text of the n-gram model",
                expected=f"{min_bytes} bytes or more of text; add shards in this language, or train without this"
                " language (its documents then keep the label of their source)",
            )
    columns = {language: (_weights(total), sizes[language]) for language, total in counts.items() if total.any()}
    # A column that is trained on too little text would match no pieces, or only by chance.
    columns = {language: column for language, column in columns.items() if column[1] >= min_bytes}
    asked = set(wanted)
    if base is not None:
        asked |= set(base.languages)
        for number, language in enumerate(base.classes):
            columns.setdefault(language, (base.weights[:, number], base.bytes[number]))
    if len(columns) < 2:
        raise InputError(
            "there is text in one language only",
            where="training text of the n-gram model",
            expected="text in at least two languages, which the model distinguishes; add shards in other languages",
        )
    classes = sorted(columns)
    return NgramModel(
        tuple(sorted(asked)),
        tuple(classes),
        np.stack([columns[language][0] for language in classes], axis=1),
        tuple(columns[language][1] for language in classes),
    )


def _weights(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the weight of each n-gram for a language with these counts."""
    uniform = UNSEEN / BUCKETS
    ratio = ((1 - UNSEEN) * counts / counts.sum() + uniform) / uniform
    steps: npt.NDArray[np.float64] = np.rint(np.log(ratio) * SCALE)
    return np.minimum(steps, 255).astype(np.uint8)
