"""Claim: language identification processes at least 15 MB/s of documents on one core.

    python bench/corpus_langid.py > bench/results/corpus_langid.json

The peer is `pycld2.detect` on the unchanged text, run in turn with ours on the same documents. The comparison shows the
additional cost of our identification. Among the documents of at least `language_id.min_bytes` in languages that can be
identified, the program also counts those whose labelled language has at least `language_id.min_share` of the bytes.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

import pycld2
from _support import (
    Contender,
    Document,
    Floor,
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

from bloomery.config.stages import JudgeStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus.langid import LanguageIdentifier, identifier

FLOOR_MEGABYTES_PER_SECOND = 15.0


def peer_detect(documents: list[Document]) -> int:
    """Run plain CLD2 on the documents, and return the number of documents that it refuses."""
    refused = 0
    for document in documents:
        try:
            pycld2.detect(document.text, isPlainText=True)
        except pycld2.error:
            refused += 1
    return refused


def agreeing(documents: list[Document], detectors: LanguageIdentifier, stage: JudgeStage) -> tuple[int, int]:
    """Return the number of documents whose label can be checked, and the number whose label is confirmed."""
    judged = held = 0
    for document in documents:
        accept = stage.accept.get(document.language, [])
        if detectors.codes.isdisjoint(accept) or len(document.text.encode()) < stage.language_id.min_bytes:
            continue
        found = detectors.detect(document.text, document.language)
        share = sum(share for code, share in zip(found.codes, found.shares, strict=True) if code in accept)
        judged += 1
        held += share >= stage.language_id.min_share - 0.005
    return judged, held


def main() -> int:
    arguments = parser(__doc__).parse_args()
    one_core()
    documents = read_documents(arguments.languages, arguments.bytes_per_language)
    size = megabytes(documents)
    texts, labels = [document.text for document in documents], [document.language for document in documents]
    sections: Any = stage_sections(configuration())
    detectors = identifier(sections["measure"].detector)
    speeds = in_turn(
        {
            "ours": Contender(size, lambda: detectors.detect_all(texts, labels)),
            "peer": Contender(size, lambda: peer_detect(documents)),
        },
        arguments.repeats,
    )
    judged, held = agreeing(documents, detectors, sections["judge"])
    return finish(
        "corpus_langid",
        {
            "peer": {"name": "pycld2.detect"},
            "languages": len(arguments.languages),
            "megabytes": round(size, 1),
            "repeats": arguments.repeats,
            "megabytes_per_core_second": {name: spread(values) for name, values in speeds.items()},
            "times_faster": spread(times_faster(speeds, "ours", "peer")),
            "counts": {
                "documents": len(documents),
                "judged": judged,
                "label_holds": held,
                "refused_by_peer": peer_detect(documents),
            },
        },
        [Floor("ours, MB/s", median(speeds["ours"]), FLOOR_MEGABYTES_PER_SECOND)],
    )


if __name__ == "__main__":
    sys.exit(main())
