"""Test that the tokenizer and the blend of the training have the shares in mixture.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizer_training import train_tokenizer

from bloomery.base.atomic import write_json
from bloomery.base.digest import document_id
from bloomery.base.errors import InputError
from bloomery.base.self_digest import check_file
from bloomery.config.stages import CountStage, IndexStage, MixtureStage, TokenizerStage
from bloomery.contracts.index import open_array
from bloomery.contracts.index_manifest import IndexManifest, read_index_manifest
from data_prep.corpus.weigh_mixture import mixture
from data_prep.formats.mixture import Mixture, read_mixture
from data_prep.formats.shard import DOCUMENT_SCHEMA, write_table
from data_prep.index.adopt import adopt_tokens
from data_prep.index.build_index import build_index
from data_prep.index.encode import encode_shards
from data_prep.index.verify_index import verify_index
from data_prep.tokenizer.count_pre_tokens import count_shards

WORDS = {
    "en": "all human beings are born free",
    "fr": "tous les êtres humains naissent libres",
    "hi": "सभी मनुष्यों को गौरव",
}
DOCUMENTS = {
    "web/00000": {"en": 40, "fr": 12},
    "books/00000": {"en": 10, "hi": 8},
    "web/00001": {"en": 30, "fr": 5},
    "mail/00000": {"en": 6},
}
LENGTH = 16


@dataclass(frozen=True)
class Run:
    """A folder of clean shards, with methods that make the later files."""

    folder: Path

    def write_clean(self) -> None:
        rng = np.random.default_rng(0)
        for part, languages in DOCUMENTS.items():
            rows, counts = [], {}
            for code, documents in languages.items():
                texts = [" ".join(rng.choice(WORDS[code].split(), 30)) for _ in range(documents)]
                source = part.split("/")[0]
                rows += [(document_id(part, f"{code}/{n}"), source, code, text, "") for n, text in enumerate(texts)]
                size = {"documents": documents, "bytes": sum(len(text.encode()) for text in texts)}
                counts[code] = {"in": size, "out": size, "removed": {}}
            columns = zip(zip(*rows, strict=True), DOCUMENT_SCHEMA, strict=True)
            table = pa.table([pa.array(values, field.type) for values, field in columns], schema=DOCUMENT_SCHEMA)
            path = self.folder / "corpus/clean" / f"{part}.parquet"
            write_table(path, table, kind="documents", inputs={}, parameters="", counts={"languages": counts})
            count_shards(CountStage(pre_tokenizer="bloom"), [path], self.folder / f"counts/{part}.parquet")
        write_json(self.folder / "parts.json", list(DOCUMENTS))

    def mix(self, budget: int | None = None, sources: dict[str, float] | None = None, **mixed: Any) -> dict[str, Any]:
        stage = MixtureStage.model_validate({"mixture": mixed, "budget_bytes": budget, "source_weights": sources or {}})
        return mixture(stage, self.folder / "corpus", self.folder / "parts.json", self.folder / "mixture.json")

    @property
    def mixture(self) -> Mixture:
        return read_mixture(self.folder / "mixture.json")

    def train_tokenizer(self, output: str = "tokenizer.json") -> dict[str, Any]:
        stage = TokenizerStage.model_validate({"tokenizer": {"vocabulary_size": 300, "reserved_tokens": 4}})
        paths = self.folder / "counts", list(DOCUMENTS), self.folder / "mixture.json"
        return train_tokenizer(stage, *paths, self.folder / output)

    def encode(self) -> None:
        for part in DOCUMENTS:
            path = self.folder / f"corpus/clean/{part}.parquet"
            encode_shards(self.folder / "tokenizer.json", [path], self.folder / f"index/tokens/{part}")

    def build(self, samples: int) -> IndexManifest:
        stage = IndexStage(
            sequence_length=LENGTH, train_samples=samples, validation_samples=4, validation_share=0.1, seed=3
        )
        index = self.folder / "index"
        files = self.folder / "mixture.json", self.folder / "tokenizer.json", index / "index.json"
        build_index(stage, index, list(DOCUMENTS), *files)
        verify_index(index)
        return read_index_manifest(index / "index.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run(tmp_path_factory.mktemp("run"))
    made.write_clean()
    made.mix()
    made.train_tokenizer()
    made.encode()
    return made


def weighted_shares(trained: dict[str, Any]) -> dict[str, float]:
    """Return the share of each dataset in the bytes that the tokenizer was trained on."""
    read = {name: size * trained["factors"].get(name, 0.0) for name, size in trained["language_bytes"].items()}
    return {name: size / sum(read.values()) for name, size in read.items()}


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 1.0},
        {"alpha": 0.3, "weights": {"fr": 0.5}},
        {"method": "explicit", "weights": {"en": 2, "fr": 1, "hi": 0}},
        {"method": "unimax", "max_epochs": 50, "budget": 30_000},
        {"alpha": 0.5, "sources": {"books": 4.0, "mail": 0.0}},
    ],
)
def test_tokenizer_and_blend_have_the_shares_of_mixture_json(run: Run, settings: dict[str, Any]) -> None:
    written = run.mix(**settings)
    wanted = {name: weight for name, weight in run.mixture.datasets.items() if weight > 0}
    assert run.mixture.languages == {code: entry["weight"] for code, entry in written["languages"].items()}
    assert sum(wanted.values()) == pytest.approx(1, abs=1e-12)
    trained = weighted_shares(run.train_tokenizer("other/tokenizer.json"))
    assert {name: share for name, share in trained.items() if share} == pytest.approx(wanted)
    manifest = run.build(2000)
    assert manifest.shares == pytest.approx(wanted, abs=2 / 2000)
    numbers = np.bincount(open_array(run.folder / "index", manifest.blend_dataset))
    assert dict(zip([entry.name for entry in manifest.train], numbers / 2000, strict=True)) == manifest.shares


def test_a_language_mixed_by_source_has_a_dataset_of_each_source(run: Run) -> None:
    written = run.mix(alpha=1.0, sources={"books": 3.0, "mail": 0.0})
    manifest = run.build(600)
    assert [entry.name for entry in manifest.train] == ["en/books", "en/web", "fr", "hi"]
    assert [entry.language for entry in manifest.train] == ["en", "en", "fr", "hi"]
    numbers: dict[str, set[int]] = {part.split("/")[0]: set() for part in DOCUMENTS}
    first = 0
    for part, file in zip(DOCUMENTS, manifest.token_files, strict=True):
        numbers[part.split("/")[0]] |= set(range(first, first + file.documents))
        first += file.documents
    for entry in manifest.train[:2]:
        documents = open_array(run.folder / "index", entry.documents)
        assert set(documents.tolist()) <= numbers[entry.name.split("/")[1]]
    english = next(entry for entry in manifest.validation if entry.language == "en")
    held_out = open_array(run.folder / "index", english.documents)
    assert not set(held_out.tolist()) & numbers["mail"], "a source that training leaves out is not validated"
    sources = written["languages"]["en"]["sources"]
    assert sources["books"]["weight"] / sources["books"]["bytes"] == pytest.approx(
        3 * sources["web"]["weight"] / sources["web"]["bytes"]
    )


def test_adopted_token_files_are_weighed_by_the_bytes_of_their_tokens(run: Run, tmp_path: Path) -> None:
    pair = tmp_path / "index/tokens/theirs/00000"
    adopt_tokens(run.folder / "index/tokens/mail/00000", run.folder / "tokenizer.json", "theirs", "en", pair)
    stage = MixtureStage.model_validate({"mixture": {}, "source_weights": {"theirs": 3.0}})
    corpus, parts = run.folder / "corpus", run.folder / "parts.json"
    found = mixture(stage, corpus, parts, tmp_path / "mixture.json", [pair])
    sources = found["languages"]["en"]["sources"]
    for key in ("documents", "bytes", "share"):
        assert sources["theirs"][key] == sources["mail"][key]
    assert sources["theirs"]["weight"] == pytest.approx(3 * sources["mail"]["weight"])
    assert list(found["sources"]) == ["web", "books", "mail", "theirs"]
    write_json(tmp_path / "parts.json", [])
    alone = mixture(stage, corpus, tmp_path / "parts.json", tmp_path / "mixture.json", [pair])
    assert {code: entry["weight"] for code, entry in alone["languages"].items()} == {"en": 1.0}


def test_the_index_states_tokens_and_epochs_of_languages_and_sources(run: Run) -> None:
    run.mix(alpha=1.0, sources={"books": 3.0})
    manifest = run.build(600)
    assert sum(entry.share for entry in manifest.languages.values()) == pytest.approx(1)
    for code, entry in manifest.languages.items():
        datasets = [dataset for dataset in manifest.train if dataset.language == code]
        assert entry.tokens == sum(dataset.unique_tokens for dataset in datasets)
        assert entry.documents == sum(dataset.unique_documents for dataset in datasets)
        assert entry.weight == run.mixture.languages[code]
        assert entry.share == pytest.approx(sum(manifest.shares[dataset.name] for dataset in datasets))
        assert entry.epochs == pytest.approx(entry.share * 600 * LENGTH / entry.tokens)
        assert entry.tokens == sum(part.tokens for part in entry.sources.values())
        assert entry.share == pytest.approx(sum(part.share for part in entry.sources.values()))
    english = manifest.languages["en"].sources
    assert english.keys() == {"web", "books", "mail"}
    assert english["books"].epochs == pytest.approx(3 * english["mail"].epochs, rel=0.2)
    assert manifest.languages["fr"].sources["web"].epochs == manifest.languages["fr"].epochs


@pytest.mark.parametrize("sources", [{}, {"books": 30.0}])
def test_no_dataset_is_read_more_often_than_the_cap_in_tokens(
    run: Run, sources: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    # The budget in bytes is far too small, so the mixture never reaches the cap. The tokens of the index reach it.
    run.mix(budget=1000, sources=sources, alpha=0.1, max_epochs=2)
    samples = 2 * sum(entry.tokens for entry in run.build(100).languages.values()) // LENGTH - 40
    capsys.readouterr()
    manifest = run.build(samples)
    assert "max_epochs (2) reduces the share of these datasets below their weight" in capsys.readouterr().err
    for dataset in manifest.train:
        assert manifest.shares[dataset.name] * samples * LENGTH + 1 <= 2 * dataset.unique_tokens
    assert sum(manifest.shares.values()) == pytest.approx(1)
    hindi = manifest.languages["hi"]
    assert 2 - 2 * LENGTH / hindi.tokens <= hindi.epochs <= 2
    assert hindi.share < hindi.weight


def test_the_mixture_warns_of_a_training_beyond_the_cap_and_the_index_refuses_it(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run.mix(budget=10**6, max_epochs=4)["languages"]
    said = capsys.readouterr().err
    assert "more than 4 times" in said
    text = sum(entry["bytes"] for entry in found.values())
    assert {code: entry["epochs"] for code, entry in found.items()} == pytest.approx(dict.fromkeys(found, 10**6 / text))
    with pytest.raises(InputError, match=r"4 epochs.*expected: training.train_samples of at most (\d+)") as caught:
        run.build(100_000)
    most = int(str(caught.value).split("at most ")[1].split(",")[0])
    assert run.build(most).train_samples == most
    with pytest.raises(InputError, match=f"only {most} samples are available"):
        run.build(most + 1)


def test_mixture_writes_the_value_that_it_returns(run: Run) -> None:
    written = run.mix(alpha=0.5, max_epochs=4, budget=9000)
    assert check_file(run.folder / "mixture.json", restore="") == written
    assert {key: written[key] for key in ("method", "alpha", "max_epochs", "budget_bytes")} == {
        "method": "alpha",
        "alpha": 0.5,
        "max_epochs": 4.0,
        "budget_bytes": 9000,
    }
    documents = {name: entry["documents"] for name, entry in written["sources"].items()}
    assert documents == {"web": 87, "books": 18, "mail": 6}
    assert written["sources"]["books"]["languages"].keys() == {"en", "hi"}
