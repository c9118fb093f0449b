"""Fixtures of the tests of the card's parts: one run for all of them, which they do not change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fabricated_export import fabricate
from fabricated_training import make_index

from bloomery.contracts.index_manifest import LanguageRead
from bloomery.spec.parameters import parameter_count
from export.card.facts import CardFacts, read_run_records
from export.proof.comparison import Comparison


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """Return the paths, the facts and the records of a run whose index has the languages `xx` and `yy`."""
    run = fabricate(tmp_path_factory.mktemp("card"))
    make_index(run.paths.run, 400)
    rows = run.manifest.vocabulary_rows
    parameters = parameter_count(run.stage.model, rows)
    comparison = Comparison(3, 72, 1e-6, 4.0, 1.0, {})
    facts = CardFacts(run.stage, run.manifest, run.checkpoint.name, parameters, rows, comparison)
    records = read_run_records(run.paths, 100)
    read = {
        "xx": LanguageRead(documents=26, tokens=1000, share=0.6, epochs=12.0, weight=0.5, sources={}),
        "yy": LanguageRead(documents=26, tokens=1000, share=0.4, epochs=8.0, weight=0.5, sources={}),
    }
    index = records.index.model_copy(update={"languages": read, "train_samples": 400})
    return SimpleNamespace(paths=run.paths, facts=facts, records=records, index=index)
