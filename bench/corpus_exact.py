"""Claim: exact deduplication processes at least 50 MB/s of text on one core.

    python bench/corpus_exact.py > bench/results/corpus_exact.json

The time includes hashing each document's content and searching the whole corpus for duplicates with
`dedup.near.enabled: false` (jobs keys, candidates, connect, members and resolve). The peer is datatrove's
ExactDedupSignature and ExactFindDedups, run in turn with ours on the same documents. Both hash the same normal form of
a text (white space, NFC), so both must find the same number of duplicates.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import _datatrove
import pyarrow as pa
from _support import (
    CORPUS,
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

from bloomery.config.stages import DedupStage
from bloomery.orchestration.plan_parts import plan_parts
from bloomery.orchestration.prepare_run import plan_run, write_sections
from bloomery.orchestration.stage_sections import ingest_stage, stage_sections
from data_prep.corpus.columns import text_buffers
from data_prep.corpus.content_hash import content_hashes
from data_prep.corpus.dedup.candidates import find_candidates
from data_prep.corpus.dedup.connect import connect
from data_prep.corpus.dedup.members import gather_members
from data_prep.corpus.dedup.resolve import resolve
from data_prep.corpus.dedup.scatter_keys import scatter_keys
from data_prep.corpus.ingest import ingest
from data_prep.corpus.judge import judge
from data_prep.corpus.measure import measure
from data_prep.corpus.numbered_documents import NumberedDocuments

FLOOR_MEGABYTES_PER_SECOND = 50.0


def prepare(root: Path, names: list[str]) -> DedupStage:
    """Ingest, measure and judge the corpus, keeping every document."""
    source = {
        "name": "bench",
        "kind": "jsonl",
        "paths": [str(CORPUS / f"{name}.jsonl.zst") for name in names],
        "language_field": "lang",
        "id_field": "id",
        "trust_language": True,
    }
    config = configuration([source], str(root), judge={"preset": "none"}, dedup={"near": {"enabled": False}})
    planned = plan_run(config, plan_parts)
    write_sections(config, planned)
    stages: Any = stage_sections(config)
    corpus = root / "bench/corpus"
    for part in planned:
        raw, measures, verdicts = (corpus / kind / f"{part.name}.parquet" for kind in ("raw", "measures", "verdicts"))
        ingest(ingest_stage(config, config.sources[0], part.number, *part.portion), raw, raw.with_suffix(".jsonl"))
        measure(stages["measure"], raw, measures)
        judge(stages["judge"], measures, verdicts)
    stage: DedupStage = stages["dedup"]
    return stage


def search(stage: DedupStage, run: Path) -> dict[str, int]:
    """Search for duplicates, starting from measures and verdicts, and return the numbers of exact and near
    duplicates."""
    corpus = run / "corpus"
    catalogue = NumberedDocuments(corpus, run / "config/parts.json")
    keys, members, duplicates = corpus / "keys", corpus / "members", corpus / "duplicates"
    pairs, clusters, involved = (duplicates / f"{name}.parquet" for name in ("candidates-0", "clusters", "involved"))
    for part in catalogue.parts:
        scatter_keys(stage, catalogue, part, keys / f"{part}.parquet")
    find_candidates(stage, catalogue, 0, keys, pairs, duplicates / "repeated-0.parquet")
    connect(stage, catalogue, [pairs], clusters, involved)
    for part in catalogue.parts:
        gather_members(stage, catalogue, part, involved, members / f"{part}.parquet")
    outputs = [duplicates / f"{name}-0.parquet" for name in ("duplicates", "survivors")]
    counts = resolve(stage, catalogue, 0, clusters, members, *outputs)["counts"]
    return {"duplicates": counts["exact"], "near": counts["near"]}


def hash_contents(found: list[pa.RecordBatch]) -> None:
    for batch in found:
        content_hashes(*text_buffers(batch["text"]))


def run_ours(found: list[pa.RecordBatch], stage: DedupStage, run: Path) -> dict[str, int]:
    hash_contents(found)
    with contextlib.redirect_stderr(io.StringIO()):
        return search(stage, run)


def run_peer(documents: list[Document], folder: Path) -> int:
    """Run datatrove's two steps, and return the number of duplicates that they list."""
    import unicodedata

    from datatrove.data import Document as PeerDocument
    from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupSignature, ExactFindDedups

    def content(document: PeerDocument) -> bytes:
        return unicodedata.normalize("NFC", " ".join(document.text.split())).encode()

    # datatrove needs a type as annotation, but `from __future__ import annotations` makes it text.
    content.__annotations__["return"] = bytes
    _datatrove.quiet()
    shutil.rmtree(folder, ignore_errors=True)
    config = ExactDedupConfig(content_getter=content)
    stream = (PeerDocument(text=document.text, id=document.id) for document in documents)
    ExactDedupSignature(str(folder / "signatures"), config).run(stream)
    with contextlib.redirect_stderr(io.StringIO()):
        ExactFindDedups(str(folder / "signatures"), str(folder / "found"), config).run()
    return sum(path.stat().st_size for path in (folder / "found").rglob("*.c4_dup")) // 4


def main() -> int:
    arguments = parser(__doc__, of_texts=False).parse_args()
    one_core()
    documents = read_documents(arguments.languages, 1 << 62)
    size, found = megabytes(documents), batches(documents)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with contextlib.redirect_stderr(io.StringIO()):
            stage = prepare(folder, arguments.languages)
        speeds = in_turn(
            {
                "ours": Contender(size, lambda: run_ours(found, stage, folder / "bench")),
                "ours_hash": Contender(size, lambda: hash_contents(found)),
                "peer": Contender(size, lambda: run_peer(documents, folder / "peer")),
            },
            arguments.repeats,
        )
        counts = run_ours(found, stage, folder / "bench")
        peer_duplicates = run_peer(documents, folder / "peer")
    return finish(
        "corpus_exact",
        {
            "peer": {"name": _datatrove.describe()["name"] + " ExactDedupSignature, ExactFindDedups"},
            "languages": len(arguments.languages),
            "megabytes": round(size, 1),
            "repeats": arguments.repeats,
            "megabytes_per_core_second": {name: spread(values) for name, values in speeds.items()},
            "times_faster": spread(times_faster(speeds, "ours", "peer")),
            "counts": {"documents": len(documents), **counts, "peer_duplicates": peer_duplicates},
        },
        [Floor("ours, MB/s", median(speeds["ours"]), FLOOR_MEGABYTES_PER_SECOND)],
        same_counts=counts == {"duplicates": peer_duplicates, "near": 0},
    )


if __name__ == "__main__":
    sys.exit(main())
