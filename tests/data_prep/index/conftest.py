"""Fixtures that make a small corpus, its tokenizer and its index with the functions of data_prep, once per session."""

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tokenizer_training import train_tokenizer

from bloomery.base.atomic import write_json
from bloomery.base.digest import document_id
from bloomery.config.stages import CountStage, IndexStage, TokenizerStage
from bloomery.config.tokens import TokenizerConfig
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table
from data_prep.index.build_index import build_index
from data_prep.index.encode import encode_shards
from data_prep.tokenizer.count_pre_tokens import count_shards

WORDS = {
    "en": ["all", "human", "beings", "are", "born", "free", "and", "equal", "in", "dignity", "and", "rights"],
    "fr": ["tous", "les", "êtres", "humains", "naissent", "libres", "et", "égaux", "en", "dignité"],
    "hi": ["सभी", "मनुष्यों", "को", "गौरव", "और", "अधिकारों", "के", "मामले", "में"],
    "zhs": ["人人", "生而自由", "在尊严", "和权利上", "一律平等"],
    "code": ["if x:\n", "    return", "<s>old</s>", "def f(x):", "# </s>\n", "\t\t"],
}
WEIGHTS = {"en": 0.4, "fr": 0.25, "hi": 0.2, "zhs": 0.1, "code": 0.05}


@dataclass(frozen=True)
class Run:
    folder: Path
    parts: tuple[str, ...]
    weights = WEIGHTS

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer" / "tokenizer.json"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def mixture(self) -> Path:
        return self.folder / "corpus" / "mixture.json"

    def clean(self, part: str) -> Path:
        return self.folder / "corpus" / "clean" / f"{part}.parquet"

    def build(self, *, token_files: str | None = None, **changes: object) -> None:
        settings = {
            "sequence_length": 16,
            "train_samples": 700,
            "validation_samples": 8,
            "validation_share": 0.2,
            "seed": 7,
        } | changes
        stage = IndexStage.model_validate(settings)
        output = self.index / "index.json"
        build_index(stage, self.index, list(self.parts), self.mixture, self.tokenizer, output, token_files=token_files)


HOSTILE_WORDS = WORDS | {
    "hi": ["كتاب‏", "مدرسة", "أَهْلًا", "،", "‮evil‬", "عام"],
    "zhs": ["人人", "生而自由", "，", "𠀀", "尊严　"],
    "code": ["a\x00b", "\x1b[31m", "👩🏽‍🚀", "🇰🇪", "\r\n", "</s>", "�", "\t"],
}
"""Words with the same keys as `WORDS`, many of them hard to display: Arabic, right-to-left marks, rare Chinese
characters, NUL, escape sequences and emoji."""


def make_documents(part: int, per_language: int, words: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """Return the rows of a shard: texts of 0 to 59 words, each in one language."""
    rng = np.random.default_rng(part)
    rows = []
    for language, number in itertools.product(WORDS, range(per_language)):
        # Draw positions instead of strings, because numpy removes NUL from the end of a string.
        drawn = rng.integers(0, len(words[language]), size=int(rng.integers(0, 60)))
        text = " ".join(words[language][position] for position in drawn)
        rows.append((document_id("s", f"{part}/{language}/{number}"), "s", language, text, ""))
    return sorted(rows)


def make_run(folder: Path, per_part: tuple[int, ...] = (12, 0, 9), words: dict[str, list[str]] = WORDS) -> Run:
    """Make a run whose shards are encoded but that has no index yet. By default, one of the shards is empty."""
    run = Run(folder, tuple(f"s/{number:05d}" for number in range(len(per_part))))
    write_json(run.mixture, {"languages": {code: {"weight": weight} for code, weight in WEIGHTS.items()}})
    for number, (part, size) in enumerate(zip(run.parts, per_part, strict=True)):
        columns = list(zip(*make_documents(number, size, words), strict=True)) or [[]] * len(DOCUMENT_SCHEMA)
        table = pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, DOCUMENT_SCHEMA, strict=True)],
            schema=DOCUMENT_SCHEMA,
        )
        write_table(run.clean(part), table, kind="documents", inputs={}, parameters="")
        count_shards(CountStage(pre_tokenizer="bloom"), [run.clean(part)], folder / f"tokenizer/counts/{part}.parquet")
    stage = TokenizerStage(tokenizer=TokenizerConfig(vocabulary_size=400, reserved_tokens=4))
    train_tokenizer(stage, folder / "tokenizer/counts", list(run.parts), run.mixture, run.tokenizer)
    for part in run.parts:
        encode_shards(run.tokenizer, [run.clean(part)], run.index / f"tokens/{part}")
    return run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Make a run with a built index, which tests must not change."""
    made = make_run(tmp_path_factory.mktemp("run"))
    made.build()
    return made


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Make a run like `run` from texts that are difficult to display."""
    made = make_run(tmp_path_factory.mktemp("run"), words=HOSTILE_WORDS)
    made.build()
    return made


@pytest.fixture
def own_run(run: Run, tmp_path: Path) -> Run:
    """Copy the run, so that a test may damage it."""
    shutil.copytree(run.folder, tmp_path / "run")
    return Run(tmp_path / "run", run.parts)
