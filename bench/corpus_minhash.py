"""Claim: MinHash signatures (14 x 8) are computed at 10 MB/s or more on one core, at least 15 times datatrove's speed.

    python bench/corpus_minhash.py > bench/results/corpus_minhash.json

The peer is datatrove's MinhashDedupSignature (word 5-grams, 14 x 8) without writing its files. It runs in turn with
ours on the same documents, with the word splitter of each language. Both sides compute keys from text. To check the
keys, the program counts on both sides the documents that share a band with an earlier document. These counts are
similar, but not equal: datatrove computes no signature for texts of fewer than five words, and it normalises digits and
accents.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable
from statistics import median
from typing import Any

import _datatrove
import numpy as np
import pyarrow as pa
import xxhash
from _support import (
    Contender,
    Document,
    Floor,
    batches,
    configuration,
    finish,
    in_turn,
    megabytes,
    one_core,
    parser,
    read_documents,
    spread,
    times_faster,
)

from bloomery.config.stages import MeasureStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus import _text
from data_prep.corpus.columns import flags_of, text_buffers

FLOOR_MEGABYTES_PER_SECOND = 10.0
FLOOR_TIMES_FASTER = 15.0


def signatures(found: list[pa.RecordBatch], stage: MeasureStage) -> Any:
    """Return the keys, uint64 of shape [documents, bands]."""
    near = stage.near
    keys = []
    for batch in found:
        data, offsets = text_buffers(batch["text"])
        unspaced = flags_of(batch["language"], stage.unspaced)
        sizes = (near.word_ngram, near.character_ngram, near.bands, near.rows)
        keys.append(_text.minhash(data, offsets, unspaced, *sizes, stage.seed))
    return np.concatenate(keys)


def peer_signatures(documents: list[Document], folder: str) -> Callable[[], list[list[list[int]]]]:
    """Return a function that computes datatrove's bands of each document, or no bands for a very short document."""
    from datatrove.pipeline.dedup import minhash

    _datatrove.quiet()
    if not _datatrove.HAS_SPACY:
        minhash.load_word_tokenizer = lambda _: _datatrove.PlainWords()
    settings = minhash.MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    steps = {
        language: minhash.MinhashDedupSignature(folder, settings, _datatrove.LANGUAGES[language])
        for language in {document.language for document in documents}
    }
    for step in steps.values():
        step._hash_func = lambda text: xxhash.xxh64_intdigest(
            text.encode()
        )  # xxhash 4 accepts no str, but datatrove passes one

    def run() -> list[list[list[int]]]:
        made = []
        for document in documents:
            step = steps[document.language]
            shingles = step.get_shingles(document.text)
            made.append(step.get_signature(shingles) if shingles.size else [])
        return made

    return run


def alike(bands: Iterable[Iterable[Hashable]]) -> int:
    """Return the number of documents that share a band's key with an earlier document."""
    seen: set[tuple[int, Hashable]] = set()
    found = 0
    for keys in bands:
        mine = set(enumerate(keys))
        found += not seen.isdisjoint(mine)
        seen |= mine
    return found


def main() -> int:
    options = parser(__doc__)
    options.add_argument(
        "--peer-bytes",
        type=int,
        default=400_000,
        help="bytes of text of each language for the comparison with the peer",
    )
    arguments = options.parse_args()
    one_core()
    sections: Any = stage_sections(configuration())
    stage: MeasureStage = sections["measure"]
    everything = read_documents(arguments.languages, arguments.bytes_per_language)
    shared = read_documents([one for one in arguments.languages if one in _datatrove.LANGUAGES], arguments.peer_bytes)
    every_batch, shared_batches = batches(everything), batches(shared)
    with tempfile.TemporaryDirectory() as folder:
        peer = peer_signatures(shared, folder)
        speeds = in_turn(
            {
                "ours": Contender(megabytes(shared), lambda: signatures(shared_batches, stage)),
                "peer": Contender(megabytes(shared), peer),
                "ours_all": Contender(megabytes(everything), lambda: signatures(every_batch, stage)),
            },
            arguments.repeats,
        )
        theirs = alike((tuple(band) for band in bands) for bands in peer())
    ratio = times_faster(speeds, "ours", "peer")
    ours, ours_all = (alike(signatures(found, stage).tolist()) for found in (shared_batches, every_batch))
    return finish(
        "corpus_minhash",
        {
            "peer": _datatrove.describe(),
            "languages": len(arguments.languages),
            "megabytes": round(megabytes(everything), 1),
            "megabytes_with_peer": round(megabytes(shared), 2),
            "repeats": arguments.repeats,
            "megabytes_per_core_second": {name: spread(values) for name, values in speeds.items()},
            "times_faster": spread(ratio, 1),
            "counts": {
                "documents": len(everything),
                "sharing_a_band": ours_all,
                "documents_with_peer": len(shared),
                "sharing_a_band_of_these": ours,
                "peer_sharing_a_band_of_these": theirs,
            },
        },
        [
            Floor("ours_all, MB/s", median(speeds["ours_all"]), FLOOR_MEGABYTES_PER_SECOND),
            Floor("times faster than the peer", median(ratio), FLOOR_TIMES_FASTER),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
