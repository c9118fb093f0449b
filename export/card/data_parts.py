"""Write the parts of the card about the corpus: languages, data recipe and licences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bloomery.base.markdown_text import markdown_table
from bloomery.base.units import format_bytes
from export.card.facts import CODE
from export.card.folded import folded
from export.card.key_rows import key_rows, pick, without_keys

if TYPE_CHECKING:
    from bloomery.contracts.index_manifest import IndexManifest, LanguageRead
    from export.card.facts import CardFacts, RunRecords

MANY_EPOCHS = 4.0
"""Up to this many epochs, repeated text is nearly as good as new text (Muennighoff et al. 2023, arXiv 2305.16264)."""
_RECIPE_KEYS = {
    "judge": ("language_id", "thresholds.default", "trusted_sources", "code_licences", "recipe_of"),
    "dedup": ("dedup.exact", "dedup.near", "priorities"),
    "clean": ("pii", "strips_lines", "decontaminates"),
    "mixture": ("mixture", "source_weights"),
    "count": ("pre_tokenizer", "split_digits"),
    "tokenizer": ("tokenizer.vocabulary_size",),
    "index": ("validation_share", "validation_samples", "order", "blend", "seed"),
}
"""Keys of the sections that determine the text. Keys that name files of a machine are left out."""
_PATH_KEYS = frozenset({"language_id.fallback_model", "language_id.fasttext_model"})
"""Keys inside these sections whose values are paths of a machine."""
_EMPTY = ("null", "[]", "{}")
"""Values of keys that have no effect, such as a limit that is not set."""


def corpus(facts: CardFacts, records: RunRecords) -> str | None:
    """Return the tables of the languages and of the recipe. Return None if the run recorded neither.

    If the training is stale, the tables may describe another corpus.
    """
    languages = records.languages or {}
    read = records.index.languages if records.index is not None else {}
    parts = []
    if records.stale and (languages or read):
        parts.append(f"The training is {records.stale}, so the model may have read other text than this section shows.")
    if read and records.index is not None:
        parts.append(_amount(facts, records.index))
    if languages or read:
        parts.append(_languages(languages, read))
    if CODE in languages or CODE in read:
        parts.append("The language `code` is source code.")
    if rows := _recipe(records.recipe):
        parts.append(
            folded("Data recipe, without keys that are not set", markdown_table(["stage", "key", "value"], rows))
        )
    return "\n\n".join(parts) or None


def _amount(facts: CardFacts, index: IndexManifest) -> str:
    """Return sentences that state how often the training reads its text."""
    unique = sum(entry.tokens for entry in index.languages.values())
    epochs = sum(entry.tokens * entry.epochs for entry in index.languages.values()) / max(1, unique)
    text = (
        f"The training reads {index.train_samples:,} samples from {unique:,} unique tokens, so it reads its text "
        f"{epochs:.3g} times on average."
    )
    if epochs > MANY_EPOCHS:
        text += f" Text that is read more than about {MANY_EPOCHS:g} times teaches a model less than new text."
    if facts.manifest.consumed_samples < index.train_samples:
        share = facts.manifest.consumed_samples / index.train_samples
        text += f" This checkpoint has read {100 * share:.1f} % of these samples."
    return text


def _languages(languages: Mapping[str, Mapping[str, Any]], read: Mapping[str, LanguageRead]) -> str:
    corpus_columns = ["documents", "text", "share of bytes", "weight in training"] if languages else []
    read_columns = ["unique tokens", "share of tokens read", "epochs"] if read else []
    rows = []
    for code in sorted({*languages, *read}):
        row = [code]
        if languages:
            found = languages.get(code)
            row += _corpus_cells(found) if found is not None else [""] * len(corpus_columns)
        if read:
            entry = read.get(code)
            row += _read_cells(entry) if entry is not None else [""] * len(read_columns)
        rows.append(row)
    about = "Documents and text of each language after cleaning and deduplication"
    words = [about] if languages else []
    words += ["what the whole training reads of each language"] if read else []
    title = ", and ".join(words)
    return f"{title[0].upper()}{title[1:]}:\n\n" + markdown_table(["language", *corpus_columns, *read_columns], rows)


def _corpus_cells(facts: Mapping[str, Any]) -> list[str]:
    return [
        f"{facts['documents']:,}",
        format_bytes(facts["bytes"]),
        f"{facts['share']:.4f}",
        f"{facts['weight']:.4f}",
    ]


def _read_cells(entry: LanguageRead) -> list[str]:
    return [f"{entry.tokens:,}", f"{entry.share:.4f}", f"{entry.epochs:.3g}"]


def _recipe(sections: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for name, keys in _RECIPE_KEYS.items():
        for key in keys:
            value = pick(sections.get(name, {}), key)
            shown = without_keys(key_rows(value, key), _PATH_KEYS)
            rows += [[name, *row] for row in shown if row[1] not in _EMPTY]
    return rows


def licences(found: Mapping[str, str]) -> str | None:
    """Return the table of the licences of the sources. Return None if there are no sources."""
    rows = [[name, licence] for name, licence in sorted(found.items())]
    return markdown_table(["source", "licence"], rows) if rows else None
