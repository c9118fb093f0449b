"""Measure a few documents, and make a stage that judges them."""

import pyarrow as pa

from bloomery.config.corpus import LanguageIdConfig, NearDedupConfig, Thresholds
from bloomery.config.stages import JudgeStage, MeasureStage
from data_prep.corpus.language_words import LanguageWords
from data_prep.corpus.measure import measure_batch
from data_prep.formats.shard import DOCUMENT_SCHEMA

FRENCH = "Le facteur de notre vallée circule encore à vélo, même en hiver, et salue les vaches par leur nom. " * 2
STAGE = MeasureStage(near=NearDedupConfig(), seed=1, unspaced=["zhs"])


def measured(*rows: tuple[str, str, str], batch: int = 100) -> pa.Table:
    """Return the measures of documents of (source, language, text)."""
    columns = {
        "id": [f"{n:032x}" for n in range(len(rows))],
        "source": [row[0] for row in rows],
        "language": [row[1] for row in rows],
        "text": [row[2] for row in rows],
        "meta": [""] * len(rows),
    }
    table = pa.table(columns, schema=DOCUMENT_SCHEMA)
    listed = LanguageWords(STAGE)
    return pa.Table.from_batches([measure_batch(part, STAGE, listed) for part in table.to_batches(max_chunksize=batch)])


def stage(**limits: dict[str, float]) -> JudgeStage:
    return JudgeStage(
        thresholds={"default": Thresholds(), **{code: Thresholds(**values) for code, values in limits.items()}},
        accept={"en": ["en"], "fr": ["fr"], "fon": [], "id": ["id", "ms"]},
        trusted_sources=["trusted"],
        language_id=LanguageIdConfig(),
    )
