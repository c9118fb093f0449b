"""Claim: `measure` and `judge` process at least 10 MB/s on one core, at least 20 times as fast as datatrove's filters.

    python bench/corpus_filters.py > bench/results/corpus_filters.json

Language identification is not included. The peer is a chain of datatrove's GopherRepetitionFilter, GopherQualityFilter
and FineWebQualityFilter, run in turn with ours on the same documents, with the word splitter of each language. Ours is
measured three times:

- `filters`: the kernel and the verdicts, on the documents that the peer processes.
- `filters_all`: the kernel and the verdicts, on documents of every language.
- `jobs_all`: the two jobs, on documents of every language. They read the shard, call the kernel, compute content hashes
and MinHash keys, write and read the measures, and compute the verdicts.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import _datatrove
import numpy as np
import pyarrow as pa
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
    write_shard,
)

from bloomery.config.stages import JudgeStage, MeasureStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus import _text
from data_prep.corpus import measure as measuring
from data_prep.corpus.content_hash import CONTENT_HASH_BYTES
from data_prep.corpus.judge import failures, judge, verdicts
from data_prep.corpus.langid import LanguageIdentifier
from data_prep.corpus.langid.detection import UNKNOWN
from data_prep.corpus.language_words import LanguageWords

FLOOR_MEGABYTES_PER_SECOND = 10.0
FLOOR_TIMES_FASTER = 20.0
FINEWEB = {
    "min_terminal_punctuation_ratio": 0.12,
    "max_short_line_ratio": 0.67,
    "max_duplicate_line_ratio": 0.01,
    "max_newline_ratio": 0.3,
}


@contextlib.contextmanager
def language_apart() -> Iterator[None]:
    """Disable language identification."""
    with mock.patch.object(
        measuring, "identifier", return_value=LanguageIdentifier(lambda _: UNKNOWN, frozenset(), None)
    ):
        yield


@contextlib.contextmanager
def keys_apart() -> Iterator[None]:
    """Disable the hashes and keys for the search for duplicates."""

    def no_keys(
        _data: object, offsets: Any, _unspaced: object, _words: int, _characters: int, bands: int, *_: int
    ) -> Any:
        return np.zeros((len(offsets) - 1, bands), np.uint64)

    def no_hashes(_data: object, offsets: Any) -> pa.Array:
        return pa.array([bytes(CONTENT_HASH_BYTES)] * (len(offsets) - 1), pa.binary(CONTENT_HASH_BYTES))

    with mock.patch.object(measuring, "content_hashes", no_hashes), mock.patch.object(_text, "minhash", no_keys):
        yield


def filter_documents(
    found: list[pa.RecordBatch], measure: MeasureStage, language_words: LanguageWords, stage: JudgeStage
) -> list[bool]:
    """Call the kernel, compute the verdicts, and return whether each document is kept."""
    kept: list[bool] = []
    with language_apart(), keys_apart():
        for batch in found:
            table = pa.Table.from_batches([measuring.measure_batch(batch, measure, language_words)])
            kept += verdicts(table, failures(table, stage)[0])["kept"].to_pylist()
    return kept


def run_jobs(folder: Path, measure: MeasureStage, stage: JudgeStage) -> dict[str, int]:
    """Run the jobs `measure` and `judge` on the shard in `folder`, and return the counts of `judge`."""
    measures = folder / "measures.parquet"
    with contextlib.redirect_stderr(io.StringIO()), language_apart():
        measuring.measure(measure, folder / "raw.parquet", measures)
        counts = judge(stage, measures, folder / "verdicts.parquet")["counts"]["languages"].values()
    removed = sum(sum(entry["removed"].values()) for entry in counts)
    return {"documents": sum(entry["documents"] for entry in counts), "removed": removed}


def peer_filters(documents: list[Document]) -> Callable[[], list[bool]]:
    """Return a function that runs datatrove's chain and returns whether each document is kept."""
    from datatrove.data import Document as PeerDocument
    from datatrove.pipeline.filters import fineweb_quality_filter, gopher_quality_filter, gopher_repetition_filter

    _datatrove.quiet()
    if not _datatrove.HAS_SPACY:
        for module in (fineweb_quality_filter, gopher_quality_filter, gopher_repetition_filter):
            module.split_into_words = _datatrove.plain_words
    by_language: dict[str, list[int]] = {}
    for number, document in enumerate(documents):
        by_language.setdefault(document.language, []).append(number)
    chains = {
        language: (
            gopher_repetition_filter.GopherRepetitionFilter(language=_datatrove.LANGUAGES[language]),
            # This filter's stop words are English, so documents in other languages must not be checked for them.
            gopher_quality_filter.GopherQualityFilter(min_stop_words=None, language=_datatrove.LANGUAGES[language]),
            fineweb_quality_filter.FineWebQualityFilter(language=_datatrove.LANGUAGES[language]),
        )
        for language in by_language
    }

    def run() -> list[bool]:
        kept = [False] * len(documents)
        for language, numbers in by_language.items():
            stream: Any = (PeerDocument(text=documents[number].text, id=str(number)) for number in numbers)
            for step in chains[language]:
                stream = step.run(stream)
            for document in stream:
                kept[int(document.id)] = True
        return kept

    return run


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
    config = configuration(judge={"preset": "gopher", "thresholds": {"default": FINEWEB}})
    sections: Any = stage_sections(config)
    measure, stage = (
        sections["measure"],
        sections["judge"].model_copy(update={"accept": {}}),
    )  # disables verdicts by language
    language_words = LanguageWords(measure)
    everything = read_documents(arguments.languages, arguments.bytes_per_language)
    shared = read_documents([one for one in arguments.languages if one in _datatrove.LANGUAGES], arguments.peer_bytes)
    every_batch, shared_batches, peer = batches(everything), batches(shared), peer_filters(shared)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_shard(folder / "raw.parquet", every_batch)
        speeds = in_turn(
            {
                "filters": Contender(
                    megabytes(shared), lambda: filter_documents(shared_batches, measure, language_words, stage)
                ),
                "peer": Contender(megabytes(shared), peer),
                "filters_all": Contender(
                    megabytes(everything), lambda: filter_documents(every_batch, measure, language_words, stage)
                ),
                "jobs_all": Contender(megabytes(everything), lambda: run_jobs(folder, measure, stage)),
            },
            arguments.repeats,
        )
        jobs = run_jobs(folder, measure, stage)
    ours, theirs = filter_documents(shared_batches, measure, language_words, stage), peer()
    all_kept = filter_documents(every_batch, measure, language_words, stage)
    ratio = times_faster(speeds, "filters", "peer")
    agreed = Counter(zip(ours, theirs, strict=True))
    counts = {
        "documents": len(everything),
        "kept": sum(all_kept),
        "jobs": jobs,
        "documents_with_peer": len(shared),
        "kept_of_these": sum(ours),
        "peer_kept_of_these": sum(theirs),
        "verdicts_equal": agreed[True, True] + agreed[False, False],
    }
    return finish(
        "corpus_filters",
        {
            "peer": _datatrove.describe(),
            "languages": len(arguments.languages),
            "megabytes": round(megabytes(everything), 1),
            "megabytes_with_peer": round(megabytes(shared), 2),
            "repeats": arguments.repeats,
            "megabytes_per_core_second": {name: spread(values) for name, values in speeds.items()},
            "times_faster": spread(ratio, 1),
            "counts": counts,
        },
        [
            Floor("filters_all, MB/s", median(speeds["filters_all"]), FLOOR_MEGABYTES_PER_SECOND),
            Floor("jobs_all, MB/s", median(speeds["jobs_all"]), FLOOR_MEGABYTES_PER_SECOND),
            Floor("times faster than the peer", median(ratio), FLOOR_TIMES_FASTER),
        ],
        same_counts=jobs == {"documents": len(everything), "removed": len(everything) - sum(all_kept)},
    )


if __name__ == "__main__":
    sys.exit(main())
