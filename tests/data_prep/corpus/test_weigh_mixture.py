"""Test the table of languages and sources in mixture.json."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config
from bloomery.config.stages import MixtureStage
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus.weigh_mixture import Sizes, lines, table

TEXT: dict[str, dict[str, int]] = {
    "en": {"web": 6_000, "books": 2_000, "mail": 500},
    "fr": {"web": 1_000, "books": 1_000},
    "yo": {"web": 100},
}

MINIMAL: dict[str, Any] = {
    "name": "test",
    "sources": [{"name": "web", "kind": "text", "paths": ["x"], "language": "en"}],
    "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
    "training": {"train_samples": 1000, "batch": {"global_batch_size": 1}, "optimizer": {"learning_rate": 0.1}},
}


def sizes(text: dict[str, dict[str, int]] = TEXT) -> Sizes:
    return {
        code: {name: Counter(documents=size // 100, bytes=size) for name, size in of_language.items()}
        for code, of_language in text.items()
    }


def stage(budget: int | None = None, sources: dict[str, float] | None = None, **settings: Any) -> MixtureStage:
    return MixtureStage.model_validate(
        {"mixture": {"alpha": 1.0, **settings}, "budget_bytes": budget, "source_weights": sources or {}}
    )


def test_sources_without_weights_are_read_in_proportion_to_their_bytes() -> None:
    found = table(stage(), sizes())
    for code, of_language in TEXT.items():
        entry = found[code]
        assert not entry["by_source"]
        assert entry["bytes"] == sum(of_language.values())
        assert entry["documents"] == entry["bytes"] // 100
        assert entry["share"] == pytest.approx(entry["bytes"] / 10_600)
        assert entry["epochs"] is None
        for name, size in of_language.items():
            assert entry["sources"][name]["weight"] == pytest.approx(entry["weight"] * size / entry["bytes"])
    assert sum(entry["weight"] for entry in found.values()) == pytest.approx(1, abs=1e-12)


def test_the_weight_of_a_source_changes_only_the_shares_within_a_language() -> None:
    plain, found = table(stage(), sizes()), table(stage(sources={"books": 3.0}), sizes())
    assert {code: entry["weight"] for code, entry in found.items()} == {
        code: entry["weight"] for code, entry in plain.items()
    }
    assert {code: entry["by_source"] for code, entry in found.items()} == {"en": True, "fr": True, "yo": False}
    en, fr = found["en"], found["fr"]
    assert {name: part["weight"] / en["weight"] for name, part in en["sources"].items()} == pytest.approx(
        {"web": 6_000 / 12_500, "books": 6_000 / 12_500, "mail": 500 / 12_500}
    )
    assert fr["sources"]["books"]["weight"] == pytest.approx(3 * fr["sources"]["web"]["weight"])


def test_the_text_of_a_source_with_weight_0_is_not_mixed() -> None:
    found = table(stage(10_000, sources={"web": 0.0}, max_epochs=100), sizes())
    assert found["yo"]["weight"] == 0, "no other source has text in yo"
    assert found["yo"]["bytes"] == 100, "the bytes of a source with weight 0 are still counted"
    assert found["en"]["weight"] / found["fr"]["weight"] == pytest.approx(2_500 / 1_000)
    assert found["en"]["sources"]["web"]["weight"] == 0
    assert found["en"]["epochs"] == pytest.approx(10_000 / 3_500)
    assert found["en"]["sources"]["mail"]["epochs"] == pytest.approx(10_000 / 3_500)


def test_no_language_and_no_source_is_read_more_often_than_the_cap() -> None:
    found = table(
        stage(12_000, sources={"books": 10.0, "mail": 10.0}, method="unimax", max_epochs=2.0),
        sizes(),
    )
    read = {code: entry["weight"] * 12_000 for code, entry in found.items()}
    # A third of the 12,000 bytes exceeds two epochs of yo (200 bytes). Half of the remaining 11,800 bytes exceeds two
    # epochs of fr (4000 bytes). The rest is for en.
    assert read == pytest.approx({"yo": 200, "fr": 4_000, "en": 7_800})
    epochs = {name: part["epochs"] for name, part in found["en"]["sources"].items()}
    # By weight alone, 5032 of the 7800 bytes would be books and 1258 mail, which exceeds two epochs of each.
    assert epochs == pytest.approx({"books": 2, "mail": 2, "web": 2_800 / 6_000})
    assert found["fr"]["epochs"] == found["yo"]["epochs"] == pytest.approx(2)


def test_lines_names_the_largest_languages_and_sums_up_the_rest() -> None:
    text = {f"l{number:02d}": {"web": 1000 - number} for number in range(15)}
    shown = lines({"languages": table(stage(30_000, max_epochs=4), sizes(text))})
    assert [line.split()[0] for line in shown[1:4]] == ["l00", "l01", "l02"]
    assert shown[1].split()[1:] == ["1000", "B", "6.71%", "6.71%", "2.01"]
    assert shown[-1].startswith("3 more languages: 19.88%")
    assert len(shown) == 14


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "unimax"}, "'unimax' needs max_epochs"),
        ({"method": "explicit"}, "'explicit' needs the key weights"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"method": "uniform"}, "alpha"),
    ],
)
def test_a_method_without_its_settings_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate_config({**MINIMAL, "corpus": {"mixture": settings}})


def test_only_a_cap_adds_the_budget_of_the_training_to_the_section() -> None:
    def section(**settings: Any) -> MixtureStage:
        return stage_sections(validate_config({**MINIMAL, "corpus": {"mixture": settings}}))["mixture"]  # type: ignore[return-value]

    assert section().budget_bytes is None
    assert section(max_epochs=4).budget_bytes == round(1000 * 8 * 4.7)
    assert section(max_epochs=4, budget_bytes="2MB").budget_bytes == 2_000_000
